#include "eval/child_daemons.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "client/rpc.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr char kProducer[] = "scd-producer";
constexpr char kConsumer[] = "scd-consumer";
constexpr absl::string_view kListens = " listens on ";
constexpr std::size_t kStartBytes = 64 << 10;
constexpr absl::Duration kPoll = absl::Milliseconds(20);
constexpr absl::Duration kLastBreath = absl::Milliseconds(300);
constexpr int kShownLines = 15;

void Set(std::vector<std::string>* arguments, const std::string& setting) {
  arguments->push_back("--set");
  arguments->push_back(setting);
}

std::vector<std::string> Arguments(const std::string& config, const std::vector<std::string>& settings) {
  std::vector<std::string> arguments = {"--config", config};
  for (const std::string& setting : settings) Set(&arguments, setting);
  Set(&arguments, "server.listen=127.0.0.1:0");
  Set(&arguments, "metrics.listen=off");
  // Where it listens is said at this level.
  Set(&arguments, "log.level=info");
  return arguments;
}

std::string LogOf(const ChildProcess& process, const char* name) {
  const std::string lines = process.LastLines(kShownLines);
  if (lines.empty()) return "; it wrote nothing";
  return absl::StrCat(". The last lines of ", name, ":\n", lines);
}

// The address in the line that says where the daemon listens; empty before that line is whole.
std::string ListenAddress(const ChildProcess& process) {
  const std::string text = process.FirstOutput(kStartBytes);
  const std::size_t begin = text.find(kListens.data(), 0, kListens.size());
  if (begin == std::string::npos || text.find('\n', begin) == std::string::npos) return "";
  const std::size_t address = begin + kListens.size();
  return text.substr(address, text.find_first_of(" ,\n", address) - address);
}

bool IsHealthy(const std::string& address, const std::stop_token& stop) {
  auto connection = Connection::Open(address, absl::Seconds(2), stop);
  return connection.ok() && (*connection)->CheckHealth("", absl::Seconds(2)).ok();
}

// Until the daemon is healthy; its address.
absl::StatusOr<std::string> WaitUntilHealthy(ChildProcess& process, const char* name, absl::Duration timeout,
                                             const std::stop_token& stop) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    if (stop.stop_requested()) return absl::CancelledError("interrupted");
    if (const std::optional<int> exit_code = process.ExitCode()) {
      return absl::UnavailableError(
          absl::StrCat(name, " ", DescribeExit(*exit_code), " before it served", LogOf(process, name)));
    }
    std::string address = ListenAddress(process);
    if (!address.empty() && IsHealthy(address, stop)) return address;
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(name, " does not serve after ", absl::FormatDuration(timeout), LogOf(process, name)));
    }
    absl::SleepFor(kPoll);
  }
}

absl::StatusOr<std::unique_ptr<ChildProcess>> StartProgram(const std::string& folder, const char* name,
                                                           const std::vector<std::string>& arguments) {
  return ChildProcess::Start(absl::StrCat(folder.empty() ? "." : folder, "/", name), arguments);
}

}  // namespace

std::vector<std::string> ProducerArguments(const DaemonsConfig& config) {
  std::vector<std::string> arguments = Arguments(config.producer_config, config.producer_set);
  if (!config.bundle.empty()) Set(&arguments, absl::StrCat("bundles=[\"", config.bundle, "\"]"));
  return arguments;
}

std::vector<std::string> ConsumerArguments(const DaemonsConfig& config, const std::string& producer_address) {
  std::vector<std::string> arguments = Arguments(config.consumer_config, config.consumer_set);
  if (!config.bundle.empty()) Set(&arguments, absl::StrCat("bundle=\"", config.bundle, "\""));
  Set(&arguments, absl::StrCat("producer.address=", producer_address));
  return arguments;
}

absl::StatusOr<std::unique_ptr<ChildDaemons>> ChildDaemons::Start(const DaemonsConfig& config,
                                                                  const std::stop_token& stop) {
  const absl::Duration timeout = absl::Seconds(config.start_timeout_s);
  auto daemons = absl::WrapUnique(new ChildDaemons(absl::Seconds(config.stop_timeout_s)));
  SCD_ASSIGN_OR_RETURN(daemons->producer_,
                       StartProgram(config.programs, kProducer, ProducerArguments(config)));
  SCD_ASSIGN_OR_RETURN(daemons->producer_address_,
                       WaitUntilHealthy(*daemons->producer_, kProducer, timeout, stop));
  SCD_ASSIGN_OR_RETURN(
      daemons->consumer_,
      StartProgram(config.programs, kConsumer, ConsumerArguments(config, daemons->producer_address_)));
  SCD_ASSIGN_OR_RETURN(daemons->consumer_address_,
                       WaitUntilHealthy(*daemons->consumer_, kConsumer, timeout, stop));
  return daemons;
}

ChildDaemons::~ChildDaemons() {
  if (consumer_ != nullptr) consumer_->End(grace_);
  if (producer_ != nullptr) producer_->End(grace_);
}

absl::Status ChildDaemons::Explain(const absl::Status& error) const {
  if (error.ok() || absl::IsCancelled(error)) return error;
  std::string message(error.message());
  // Its connections are gone before the process is.
  if (absl::IsUnavailable(error)) absl::SleepFor(kLastBreath);
  for (const auto& [process, name] :
       {std::pair(producer_.get(), kProducer), std::pair(consumer_.get(), kConsumer)}) {
    if (const std::optional<int> exit_code = process->ExitCode()) {
      absl::StrAppend(&message, "\n", name, " ", DescribeExit(*exit_code), LogOf(*process, name));
    }
  }
  return absl::Status(error.code(), message);
}

}  // namespace scd
