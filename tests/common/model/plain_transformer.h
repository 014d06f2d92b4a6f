// A decoder-only transformer written down once more, straight from its definition: double precision, whole
// sequences, no cache, no batches. The transformer under test must agree with it in every configuration.
#ifndef SCD_TESTS_COMMON_MODEL_PLAIN_TRANSFORMER_H_
#define SCD_TESTS_COMMON_MODEL_PLAIN_TRANSFORMER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/config/model_config.h"
#include "common/model/weight_store.h"

namespace scd::testing {

using Rows = std::vector<std::vector<double>>;

struct PlainLayer {
  Rows residual;         // entering the layer
  Rows attention_input;  // after its RMSNorm
  Rows k;                // before RoPE
  Rows v;
};

struct PlainResult {
  Rows logits;  // of every position
  std::vector<PlainLayer> layers;
};

// Only RopeType::kDefault.
PlainResult RunPlainTransformer(const ModelConfig& config, const WeightStore& weights,
                                absl::Span<const std::int32_t> tokens);

}  // namespace scd::testing

#endif  // SCD_TESTS_COMMON_MODEL_PLAIN_TRANSFORMER_H_
