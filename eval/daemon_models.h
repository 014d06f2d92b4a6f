// Which models, bundle and backend the daemons' own configurations name, for what is done in this process:
// the consumer's tokenizer, and the drift measurement.
#ifndef SCD_EVAL_DAEMON_MODELS_H_
#define SCD_EVAL_DAEMON_MODELS_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/model/model_source.h"
#include "eval/child_daemons.h"
#include "kernels/backend_factory.h"

namespace scd {

struct DaemonModels {
  ModelSource producer;
  ModelSource consumer;
  std::string bundle;      // the consumer's, or the one that replaces it
  BackendOptions backend;  // the consumer's
};

// The files with their overrides. Only these fields are looked at: the daemons check the rest.
absl::StatusOr<DaemonModels> ReadDaemonModels(const DaemonsConfig& config);

}  // namespace scd

#endif  // SCD_EVAL_DAEMON_MODELS_H_
