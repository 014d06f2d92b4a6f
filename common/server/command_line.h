// The command line that every program with a YAML file shares:
//   PROGRAM --config FILE [--set a.b=c ...] [--check] [--help] [--version]
// and --trace-dir DIR, for daemons.
#ifndef SCD_COMMON_SERVER_COMMAND_LINE_H_
#define SCD_COMMON_SERVER_COMMAND_LINE_H_

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace scd {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;  // something failed at run time
inline constexpr int kExitUsage = 2;    // wrong command line or configuration

// Semantic version of the whole project: that of project() in CMakeLists.txt.
extern const char kScdVersion[];

// An option that is another way to write --set FIELD=VALUE.
struct FieldOption {
  std::string name;  // "--target-kl"
  std::string field;
  std::string value_name;  // "NATS"
  std::string description;
};

struct ProgramInfo {
  std::string name;         // "scd-producer"
  std::string description;  // one sentence, for --help
  bool traces = false;      // takes --trace-dir
  std::vector<FieldOption> fields = {};
};

struct CommandLine {
  std::string config_path;
  std::vector<std::string> overrides;  // the texts after --set, in order
  std::optional<std::string> trace_dir;
  bool check = false;
};

// The command line, or the exit code where there is nothing more to do: help or version was printed to
// standard output, or what is wrong to standard error.
std::variant<CommandLine, int> ParseCommandLine(const ProgramInfo& program, int argc,
                                                const char* const* argv);

}  // namespace scd

#endif  // SCD_COMMON_SERVER_COMMAND_LINE_H_
