#include "kernels/reference/kv_vector.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/element.h"

namespace scd::reference {

KvVector::KvVector(const PagedKv& kv, KvPart part, std::int64_t position, std::int64_t kv_head)
    : pages_(part == KvPart::kK ? kv.k_pages : kv.v_pages), scale_(nullptr) {
  const std::int64_t page_tokens = pages_.dim(2);
  const std::int64_t page = kv.block_table.as<std::int32_t>()[position / page_tokens];
  const std::int64_t vector = kv_head * page_tokens + position % page_tokens;
  first_ = page * pages_.stride(0) + vector * pages_.dim(3);
  if (pages_.dtype() != DType::kI8) return;
  scale_ = (part == KvPart::kK ? kv.k_scales : kv.v_scales).row<float>(page) + vector;
}

float KvVector::operator[](std::int64_t i) const {
  return scale_ == nullptr ? Load(pages_, first_ + i)
                           : *scale_ * static_cast<float>(pages_.as<std::int8_t>()[first_ + i]);
}

void KvVector::Store(const float* numbers) const {
  const std::int64_t head_dim = pages_.dim(3);
  if (scale_ == nullptr) {
    for (std::int64_t i = 0; i < head_dim; ++i) reference::Store(pages_, first_ + i, numbers[i]);
    return;
  }
  float largest = 0.0f;
  for (std::int64_t i = 0; i < head_dim; ++i) largest = std::max(largest, std::abs(numbers[i]));
  *scale_ = largest / 127.0f;
  const float steps = largest > 0.0f ? 127.0f / largest : 0.0f;
  for (std::int64_t i = 0; i < head_dim; ++i) {
    const float whole = std::nearbyint(numbers[i] * steps);
    pages_.as<std::int8_t>()[first_ + i] =
        static_cast<std::int8_t>(std::min(127.0f, std::max(-127.0f, whole)));
  }
}

}  // namespace scd::reference
