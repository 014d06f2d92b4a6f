// scd-producer as a daemon: configuration, files, parts and their order of life.
#ifndef SCD_PRODUCER_PRODUCER_DAEMON_H_
#define SCD_PRODUCER_PRODUCER_DAEMON_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/model/model_source.h"
#include "common/server/daemon.h"
#include "producer/config.h"
#include "producer/encoder_cache.h"

namespace scd {

class ProducerDaemon : public Daemon {
 public:
  ProducerDaemon();
  ~ProducerDaemon() override;

  ProgramInfo program() const override;
  DaemonConfig default_config() const override;
  void Configure(YamlSection root) override;
  absl::Status OpenFiles() override;
  absl::StatusOr<std::vector<NamedService>> Start(const DaemonContext& context) override;
  std::string Summary() const override;
  void CancelRequests() override;
  void Stop() override;

 private:
  struct Parts;

  std::int64_t LongestPrompt() const;  // of a model that is open

  ProducerConfig config_;
  std::unique_ptr<Backend> backend_;
  std::optional<Model> model_;
  std::optional<BundleSet> bundles_;
  std::unique_ptr<Parts> parts_;  // what Start makes
};

}  // namespace scd

#endif  // SCD_PRODUCER_PRODUCER_DAEMON_H_
