#include "common/cache/page_memory.h"

#include <limits>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

std::size_t Bytes(const ConstTensorView& view) {
  return static_cast<std::size_t>(view.num_elements()) * DTypeBytes(view.dtype());
}

// The same elements as one row.
TensorView Flat(const TensorView& view) {
  return TensorView(view.data(), view.dtype(), Shape{1, view.num_elements()}, view.device());
}

}  // namespace

absl::StatusOr<std::unique_ptr<PageMemory>> PageMemory::Create(Backend& backend, const KvLayout& layout,
                                                               std::int64_t num_pages) {
  SCD_RETURN_IF_ERROR(layout.Validate());
  if (num_pages < 1 || num_pages > std::numeric_limits<std::int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("KV cache: num_pages is ", num_pages, ", expected 1 to 2^31 - 1"));
  }
  const auto explain = [&](const absl::Status& status) {
    std::string text = absl::StrCat("KV cache: ", num_pages, " pages of ", layout.page_bytes(),
                                    " bytes: ", status.message());
    if (absl::IsResourceExhausted(status)) {
      absl::StrAppend(&text,
                      "; a daemon's kv_cache.memory_mib, or kv_cache.pages where that is over 0, has to be",
                      " smaller");
    }
    return absl::Status(status.code(), text);
  };
  if (layout.page_bytes() > std::numeric_limits<std::int64_t>::max() / num_pages) {
    return explain(absl::ResourceExhaustedError("larger than any memory"));
  }
  const std::int64_t num_vectors =
      num_pages * layout.num_layers * 2 * layout.num_kv_heads * layout.page_tokens;
  auto vectors =
      backend.Allocate(MemoryKind::kDevice,
                       static_cast<std::size_t>(num_vectors * layout.head_dim) * DTypeBytes(layout.dtype));
  if (!vectors.ok()) return explain(vectors.status());
  std::unique_ptr<Buffer> scales;
  if (layout.has_scales()) {
    auto allocated =
        backend.Allocate(MemoryKind::kDevice, static_cast<std::size_t>(num_vectors) * sizeof(float));
    if (!allocated.ok()) return explain(allocated.status());
    scales = *std::move(allocated);
  }
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, backend.CreateStream(StreamUse::kCopies));
  return absl::WrapUnique(
      new PageMemory(backend, layout, num_pages, *std::move(vectors), std::move(scales), std::move(stream)));
}

PageMemory::PageMemory(Backend& backend, const KvLayout& layout, std::int64_t num_pages,
                       std::unique_ptr<Buffer> vectors, std::unique_ptr<Buffer> scales,
                       std::unique_ptr<Stream> stream)
    : backend_(backend),
      layout_(layout),
      num_pages_(num_pages),
      vectors_(std::move(vectors)),
      scales_(std::move(scales)),
      stream_(std::move(stream)) {}

TensorView PageMemory::Vectors(std::int64_t index) const {
  const Shape shape{num_pages_, layout_.num_kv_heads, layout_.page_tokens, layout_.head_dim};
  const std::size_t bytes = static_cast<std::size_t>(shape.num_elements()) * DTypeBytes(layout_.dtype);
  auto* begin = static_cast<std::byte*>(vectors_->data()) + static_cast<std::size_t>(index) * bytes;
  return TensorView(begin, layout_.dtype, shape, vectors_->device());
}

TensorView PageMemory::Scales(std::int64_t index) const {
  if (scales_ == nullptr) return TensorView();
  const Shape shape{num_pages_, layout_.num_kv_heads, layout_.page_tokens};
  auto* begin = static_cast<float*>(scales_->data()) + index * shape.num_elements();
  return TensorView(begin, DType::kF32, shape, scales_->device());
}

std::vector<TensorView> PageMemory::Pieces(std::int32_t page) const {
  std::vector<TensorView> pieces;
  for (std::int64_t index = 0; index < 2 * layout_.num_layers; ++index) {
    pieces.push_back(Flat(Vectors(index).rows(page, 1)));
    if (scales_ != nullptr) pieces.push_back(Flat(Scales(index).rows(page, 1)));
  }
  return pieces;
}

absl::Status PageMemory::CopyPage(std::int32_t from, std::int32_t to) {
  const std::vector<TensorView> sources = Pieces(from);
  const std::vector<TensorView> targets = Pieces(to);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    SCD_RETURN_IF_ERROR(backend_.Copy(*stream_, targets[i], sources[i]));
  }
  return backend_.Synchronize(*stream_);
}

absl::Status PageMemory::ReadPage(std::int32_t page, std::byte* bytes) {
  for (const TensorView& piece : Pieces(page)) {
    SCD_RETURN_IF_ERROR(backend_.Copy(*stream_, TensorView(bytes, piece.dtype(), piece.shape()), piece));
    bytes += Bytes(piece);
  }
  return backend_.Synchronize(*stream_);
}

absl::Status PageMemory::WritePage(std::int32_t page, const std::byte* bytes) {
  for (const TensorView& piece : Pieces(page)) {
    SCD_RETURN_IF_ERROR(backend_.Copy(*stream_, piece, ConstTensorView(bytes, piece.dtype(), piece.shape())));
    bytes += Bytes(piece);
  }
  return backend_.Synchronize(*stream_);
}

}  // namespace scd
