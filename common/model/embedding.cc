#include "common/model/embedding.h"

namespace scd {

absl::Status Embedding::Embed(Backend& backend, Stream& stream, absl::Span<const std::int32_t> host_ids,
                              ConstTensorView ids, TensorView out) const {
  if (!blocks_) return backend.Embed(stream, table_.view, ids, out);
  for (std::size_t i = 0; i < host_ids.size(); ++i) {
    DequantizeRow(*blocks_, host_ids[i], out.row<float>(static_cast<std::int64_t>(i)));
  }
  return absl::OkStatus();
}

std::int64_t Embedding::size_bytes() const {
  if (!blocks_) {
    return table_.view.num_elements() * static_cast<std::int64_t>(DTypeBytes(table_.view.dtype()));
  }
  const std::size_t groups = blocks_->scales.size() + blocks_->minimums.size();
  return static_cast<std::int64_t>(blocks_->values.size() + groups * sizeof(float));
}

}  // namespace scd
