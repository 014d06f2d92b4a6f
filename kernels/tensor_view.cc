#include "kernels/tensor_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace scd {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : rank_(static_cast<int>(std::min<std::size_t>(dims.size(), kMaxRank))) {
  std::copy_n(dims.begin(), rank_, dims_.begin());
}

std::int64_t Shape::num_elements() const {
  std::int64_t count = 1;
  for (int i = 0; i < rank_; ++i) count *= (*this)[i];
  return count;
}

std::string Shape::ToString() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", (*this)[i]);
  return text + "]";
}

bool operator==(const Shape& a, const Shape& b) {
  return a.rank_ == b.rank_ && std::equal(a.dims_.begin(), a.dims_.begin() + a.rank_, b.dims_.begin());
}

}  // namespace scd
