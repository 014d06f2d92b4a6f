// How a model's matrices are kept in memory: the words of `weights` in the `model` sections of YAML files.
#ifndef SCD_COMMON_MODEL_WEIGHTS_FORMAT_H_
#define SCD_COMMON_MODEL_WEIGHTS_FORMAT_H_

#include <cstdint>
#include <string_view>

namespace scd {

enum class WeightsFormat : std::uint8_t {
  // Quantised blocks of a GGUF file as they are, an adapter beside them; what a file stores as numbers as
  // kF32 does.
  kAuto,
  // Dense, an adapter merged; blocks are written out. f32 or bf16 as the backend's math says: that the two
  // agree is settled where the configuration is read.
  kF32,
  kBF16,
  // Quantised at load in groups of 32, whatever the file. In 8 bits with an adapter merged before that; in 4
  // bits with an adapter beside the matrices, whose small numbers 4 bits would lose, and the output layer
  // in 8.
  kInt8,
  kInt4,
};

// "auto", "f32" ...
std::string_view WeightsFormatName(WeightsFormat format);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_WEIGHTS_FORMAT_H_
