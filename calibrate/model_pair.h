// The two models of a calibration, opened and checked against each other.
#ifndef SCD_CALIBRATE_MODEL_PAIR_H_
#define SCD_CALIBRATE_MODEL_PAIR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "calibrate/config.h"
#include "common/io/digest.h"
#include "common/model/model_source.h"

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

}  // namespace scd

#endif  // SCD_CALIBRATE_MODEL_PAIR_H_
