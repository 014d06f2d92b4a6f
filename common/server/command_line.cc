#include "common/server/command_line.h"

#include <iostream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"

namespace scd {

std::variant<CommandLine, int> ParseCommandLine(const ProgramInfo& program, int argc,
                                                const char* const* argv) {
  CommandLine line;
  CLI::App app(program.description, program.name);
  app.set_version_flag("--version", absl::StrCat(program.name, " ", kScdVersion),
                       "Print the version and exit");
  app.add_option("-c,--config", line.config_path, "YAML configuration file")->required()->type_name("FILE");
  app.add_option("--set", line.overrides,
                 "Override a value of the file, for example server.listen=127.0.0.1:0")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (program.traces) {
    app.add_option("--trace-dir", line.trace_dir,
                   "Write a timeline of each request into this folder, as trace.dir does")
        ->type_name("DIR");
  }
  std::vector<std::optional<std::string>> values(program.fields.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const FieldOption& field = program.fields[i];
    app.add_option(field.name, values[i], field.description)->type_name(field.value_name);
  }
  app.add_flag("--check", line.check, "Check the configuration and the files it names, then exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(e);
    std::cerr << program.name << ": " << e.what() << "\nRun with --help for the options.\n";
    return kExitUsage;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i]) line.overrides.push_back(absl::StrCat(program.fields[i].field, "=", *values[i]));
  }
  return line;
}

}  // namespace scd
