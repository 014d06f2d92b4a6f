// scd-consumer as a whole: opens model and bundle, checks that they belong together, and serves
// scd.v1.Consumer.
#ifndef SCD_CONSUMER_CONSUMER_DAEMON_H_
#define SCD_CONSUMER_CONSUMER_DAEMON_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/bundle/bundle.h"
#include "common/server/daemon.h"
#include "consumer/config.h"
#include "consumer/engine.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

class ConsumerDaemon final : public Daemon {
 public:
  ConsumerDaemon();
  ~ConsumerDaemon() override;

  ProgramInfo program() const override;
  DaemonConfig default_config() const override;
  void Configure(YamlSection root) override;
  absl::Status OpenFiles() override;
  absl::StatusOr<std::vector<NamedService>> Start(const DaemonContext& context) override;
  std::string Summary() const override;
  void CancelRequests() override;
  void Stop() override;

 private:
  struct Files;   // what OpenFiles opened
  struct Server;  // what Start made

  // What the configuration asks of the bundle where a request says nothing.
  PlanRequest OwnPlan(std::string_view mode) const;
  // That the plans which the configuration asks for are plans that the bundle can do.
  absl::Status CheckPlans(const Bundle& bundle) const;
  void AddMetrics(MetricsRegistry& metrics, const Engine& engine) const;
  v1::ConsumerInfo Describe(const Backend& backend) const;

  ConsumerConfig config_;
  std::unique_ptr<Files> files_;
  std::unique_ptr<Server> server_;
};

}  // namespace scd

#endif  // SCD_CONSUMER_CONSUMER_DAEMON_H_
