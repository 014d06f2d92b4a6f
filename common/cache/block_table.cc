#include "common/cache/block_table.h"

#include <algorithm>
#include <utility>

#include "kernels/status_macros.h"

namespace scd {
namespace {

// A table grows by half, so that a sequence that grows page by page rarely needs a new one.
constexpr std::size_t kSmallest = 16;

}  // namespace

absl::Status BlockTable::Set(const std::vector<std::int32_t>& pages) {
  const Shape shape{static_cast<std::int64_t>(pages.size())};
  const std::size_t needed = pages.size() * sizeof(std::int32_t);
  std::unique_ptr<Buffer> grown;
  if (buffer_ == nullptr || buffer_->size_bytes() < needed) {
    const std::size_t room = std::max(kSmallest * sizeof(std::int32_t), needed + needed / 2);
    SCD_ASSIGN_OR_RETURN(grown, backend_.Allocate(MemoryKind::kDevice, room));
  }
  const Buffer& target = grown != nullptr ? *grown : *buffer_;
  if (stream_ == nullptr) {
    SCD_ASSIGN_OR_RETURN(stream_, backend_.CreateStream(StreamUse::kCopies));
  }
  SCD_RETURN_IF_ERROR(backend_.Copy(*stream_, target.View(DType::kI32, shape),
                                    ConstTensorView(pages.data(), DType::kI32, shape)));
  SCD_RETURN_IF_ERROR(backend_.Synchronize(*stream_));
  if (grown != nullptr) buffer_ = std::move(grown);
  num_pages_ = static_cast<std::int64_t>(pages.size());
  return absl::OkStatus();
}

}  // namespace scd
