#include "tests/e2e/real_pair.h"

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd::testing {

std::string ReferenceBundlePath() {
  return SCD_E2E_DIR "/reference-bundle";
}

absl::StatusOr<std::unique_ptr<DaemonProcess>> StartRealProducer(const std::string& address,
                                                                 const std::string& log_path) {
  return DaemonProcess::Start(
      BinaryPath("scd-producer"),
      {"--config", "configs/producer.yaml", "--set", absl::StrCat("bundles=[", ReferenceBundlePath(), "]"),
       "--set", absl::StrCat("server.listen=", address), "--set", "metrics.listen=127.0.0.1:0"},
      log_path);
}

absl::StatusOr<std::unique_ptr<RealPair>> StartRealPair(const std::vector<std::string>& consumer_settings) {
  auto pair = std::make_unique<RealPair>();
  SCD_ASSIGN_OR_RETURN(pair->producer, StartRealProducer("127.0.0.1:0", pair->logs.File("producer.log")));
  std::vector<std::string> arguments = {
      "--config", "configs/consumer.yaml",
      "--set",    absl::StrCat("bundle=", ReferenceBundlePath()),
      "--set",    absl::StrCat("producer.address=", pair->producer->address()),
      "--set",    "server.listen=127.0.0.1:0",
      "--set",    "metrics.listen=127.0.0.1:0"};
  for (const std::string& setting : consumer_settings) {
    arguments.push_back("--set");
    arguments.push_back(setting);
  }
  SCD_ASSIGN_OR_RETURN(pair->consumer, DaemonProcess::Start(BinaryPath("scd-consumer"), arguments,
                                                            pair->logs.File("consumer.log")));
  return pair;
}

}  // namespace scd::testing
