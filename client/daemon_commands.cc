// info and health: what is asked of the daemons themselves.
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/command_result.h"
#include "client/commands.h"
#include "client/report.h"

namespace scd {

ExitCode RunInfo(const Options& options, const Terminal& terminal) {
  ExitCode worst = ExitCode::kOk;
  nlohmann::json document = nlohmann::json::object();
  const auto worse = [&worst](ExitCode code) { worst = std::max(worst, code); };
  if (options.role != "producer") {
    ExitCode code = ExitCode::kOk;
    if (const auto connection = Connect(options, options.address, terminal, &code)) {
      const auto info = connection->ConsumerInfo(ShortDeadline(options));
      if (!info.ok()) {
        code = RequestFailed(terminal, info.status());
      } else if (options.json) {
        document["consumer"] = ConsumerJson(*info);
      } else {
        terminal.out << DescribeConsumer(*info) << std::flush;
      }
    }
    worse(code);
  }
  if (options.role != "consumer") {
    ExitCode code = ExitCode::kOk;
    if (const auto connection = Connect(options, options.producer_address, terminal, &code)) {
      const auto info = connection->ProducerInfo(ShortDeadline(options));
      if (!info.ok()) {
        code = RequestFailed(terminal, info.status());
      } else if (options.json) {
        document["producer"] = ProducerJson(*info);
      } else {
        terminal.out << DescribeProducer(*info) << std::flush;
      }
    }
    worse(code);
  }
  if (options.json) terminal.out << JsonText(document);
  return worst;
}

ExitCode RunHealth(const Options& options, const Terminal& terminal) {
  ExitCode code = ExitCode::kOk;
  const auto connection = Connect(options, options.address, terminal, &code);
  if (connection == nullptr) return code;
  const absl::Status status = connection->CheckHealth(options.service, ShortDeadline(options));
  if (options.json) terminal.out << JsonText({{"serving", status.ok()}});
  if (!status.ok()) {
    return Fail(
        terminal, ExitCode::kRequestFailed,
        absl::StrCat(options.address, options.service.empty() ? "" : absl::StrCat(" ", options.service), ": ",
                     status.message()));
  }
  if (!options.json) terminal.out << "serving" << std::endl;
  return ExitCode::kOk;
}

}  // namespace scd
