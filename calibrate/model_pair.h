// The two models of a calibration, opened and checked against each other.
#ifndef SCD_CALIBRATE_MODEL_PAIR_H_
#define SCD_CALIBRATE_MODEL_PAIR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "calibrate/config.h"
#include "common/io/digest.h"
#include "common/model/model_source.h"
#include "common/model/transformer.h"
#include "kernels/backend.h"

namespace scd {

struct ModelPair {
  Model producer;
  Model consumer;
  std::vector<std::int32_t> untranslatable_ids;  // sorted

  // Ids both models have: [0, vocab_size).
  std::int64_t vocab_size() const;
  // Of both models and their tokenizers.
  Digest digest() const;
};

// Opens both. FAILED_PRECONDITION where the pair cannot be translated.
absl::StatusOr<ModelPair> OpenModelPair(const CalibrateConfig& config);

// Both models ready to run on one backend.
struct LoadedPair {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> producer;
  std::unique_ptr<Transformer> consumer;
};
// For sequences of at most max_positions tokens.
absl::StatusOr<LoadedPair> LoadPair(const ModelPair& pair, const BackendOptions& options,
                                    std::int64_t max_positions);

}  // namespace scd

#endif  // SCD_CALIBRATE_MODEL_PAIR_H_
