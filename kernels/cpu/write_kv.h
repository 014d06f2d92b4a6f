// Rows of K or V into pages, on the calling thread.
#ifndef SCD_KERNELS_CPU_WRITE_KV_H_
#define SCD_KERNELS_CPU_WRITE_KV_H_

#include <cstdint>

#include "kernels/cpu/kv_slots.h"
#include "kernels/cpu/partition.h"
#include "kernels/tensor_view.h"

namespace scd::cpu {

// Rows `tokens` of x [tokens, kv_heads, head_dim] f32 to their positions, which were checked.
void WriteKvRows(const ConstTensorView& x, const std::int32_t* positions, Range tokens, const KvSlots& slots);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_WRITE_KV_H_
