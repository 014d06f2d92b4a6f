// The two models of a pair ready to run in one process, as calibration and measurements need them.
#ifndef SCD_COMMON_MODEL_LOADED_PAIR_H_
#define SCD_COMMON_MODEL_LOADED_PAIR_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/model/model_source.h"
#include "common/model/transformer.h"
#include "kernels/backend.h"
#include "kernels/backend_factory.h"

namespace scd {

// Both models on one backend.
struct LoadedPair {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> producer;
  std::unique_ptr<Transformer> consumer;
};

// For sequences of at most max_positions tokens; the models' files may be closed afterwards.
absl::StatusOr<LoadedPair> LoadPair(const Model& producer, const Model& consumer,
                                    const BackendOptions& options, std::int64_t max_positions);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_LOADED_PAIR_H_
