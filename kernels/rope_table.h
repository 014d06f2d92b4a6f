// Cosines and sines of rotary position embedding (RoPE), one row for each position.
//
// Pairing is "rotate half": element i of a head turns with element i + head_dim / 2. The attention factor of
// scaled variants (YaRN) is folded into both tables.
#ifndef SCD_KERNELS_ROPE_TABLE_H_
#define SCD_KERNELS_ROPE_TABLE_H_

#include "kernels/tensor_view.h"

namespace scd {

struct RopeTable {
  ConstTensorView cos;  // [max_positions, head_dim / 2] f32
  ConstTensorView sin;  // [max_positions, head_dim / 2] f32
};

}  // namespace scd

#endif  // SCD_KERNELS_ROPE_TABLE_H_
