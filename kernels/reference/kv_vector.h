// One vector of K or V in pages of any of their dtypes, number by number.
#ifndef SCD_KERNELS_REFERENCE_KV_VECTOR_H_
#define SCD_KERNELS_REFERENCE_KV_VECTOR_H_

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/paged_kv.h"

namespace scd::reference {

class KvVector {
 public:
  // That of one position and KV head; kv must outlive this.
  KvVector(const PagedKv& kv, KvPart part, std::int64_t position, std::int64_t kv_head);

  // Number i as it is kept.
  float operator[](std::int64_t i) const;
  // Keeps numbers [head_dim]: bf16 rounds them; i8 rounds them to multiples of their largest magnitude / 127.
  void Store(const float* numbers) const;

 private:
  TensorView pages_;
  std::int64_t first_;  // element of pages_
  float* scale_;        // i8 only
};

}  // namespace scd::reference

#endif  // SCD_KERNELS_REFERENCE_KV_VECTOR_H_
