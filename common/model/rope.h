// Rotary frequencies of a model: default, linear, llama3 and YaRN scaling, as transformers computes them.
#ifndef SCD_COMMON_MODEL_ROPE_H_
#define SCD_COMMON_MODEL_ROPE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/model_config.h"
#include "kernels/backend.h"
#include "kernels/rope_table.h"

namespace scd {

struct RopeFrequencies {
  std::vector<float> inverse;     // [head_dim / 2], radians per position
  double attention_factor = 1.0;  // multiplies cos and sin (YaRN)
};

// `config` is valid (ModelConfig::Validate), head_dim even.
RopeFrequencies ComputeRopeFrequencies(const RopeConfig& config, std::int64_t head_dim);

// Cos and sin of positions [0, num_positions) in a backend's memory.
class RopeTables {
 public:
  static absl::StatusOr<std::unique_ptr<RopeTables>> Create(Backend& backend,
                                                            const RopeFrequencies& frequencies,
                                                            std::int64_t num_positions);
  const RopeTable& table() const { return table_; }

 private:
  RopeTables(std::unique_ptr<Buffer> memory, const RopeTable& table)
      : memory_(std::move(memory)), table_(table) {}

  std::unique_ptr<Buffer> memory_;
  RopeTable table_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_ROPE_H_
