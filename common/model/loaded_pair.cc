#include "common/model/loaded_pair.h"

#include <algorithm>

#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<LoadedPair> LoadPair(const Model& producer, const Model& consumer,
                                    const BackendOptions& options, std::int64_t max_positions) {
  LoadedPair loaded;
  SCD_ASSIGN_OR_RETURN(loaded.backend, CreateBackend(options));
  const auto load = [&](const Model& model) {
    const std::int64_t positions = std::min(max_positions, model.config.max_positions);
    return Transformer::Create(model.config, *model.weights, *loaded.backend,
                               {.max_positions = positions, .weights = model.weights_format});
  };
  SCD_ASSIGN_OR_RETURN(loaded.producer, load(producer));
  SCD_ASSIGN_OR_RETURN(loaded.consumer, load(consumer));
  return loaded;
}

}  // namespace scd
