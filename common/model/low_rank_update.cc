#include "common/model/low_rank_update.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "kernels/quantized_matrix.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr PackOptions kInt8 = {.format = WeightFormat::kInt8};

// Ranks are padded with zeros to whole groups, of which the 8-bit B consists.
std::int64_t PaddedRank(std::int64_t rank) {
  return (rank + kWeightGroup - 1) / kWeightGroup * kWeightGroup;
}

absl::StatusOr<std::unique_ptr<PackedWeight>> PackB(Backend& backend, const LowRankMatrices& adapter,
                                                    std::int64_t width) {
  const std::int64_t padded = PaddedRank(adapter.rank);
  std::vector<float> b(static_cast<std::size_t>(width * padded), 0.0F);
  for (std::int64_t row = 0; row < width; ++row) {
    std::copy_n(adapter.b.data() + row * adapter.rank, adapter.rank, b.data() + row * padded);
  }
  return backend.PackWeight(ConstTensorView(b.data(), DType::kF32, {width, padded}), {}, kInt8);
}

}  // namespace

// The parts [begin, end) of an owner.
class LowRankUpdates::Update final : public ProductUpdate {
 public:
  Update(const LowRankUpdates& owner, std::size_t begin, std::size_t end, std::int64_t first_column)
      : owner_(owner), begin_(begin), end_(end), first_column_(first_column) {}

  absl::Status AddTo(Backend& backend, Stream& stream, ConstTensorView x, TensorView out) const override {
    const ColumnRange latent = {owner_.parts_[begin_].latent.begin, owner_.parts_[end_ - 1].latent.end};
    const std::int64_t width = latent.end - latent.begin;
    SCD_ASSIGN_OR_RETURN(
        const std::unique_ptr<Buffer> memory,
        backend.Allocate(MemoryKind::kDevice, static_cast<std::size_t>(x.dim(0) * width) * sizeof(float)));
    const TensorView z = memory->View(DType::kF32, {x.dim(0), width});
    const absl::Status queued = Queue(backend, stream, x, latent, z, out);
    // What was queued reads and writes `memory`.
    const absl::Status done = backend.Synchronize(stream);
    return queued.ok() ? done : queued;
  }

 private:
  absl::Status Queue(Backend& backend, Stream& stream, const ConstTensorView& x, ColumnRange latent,
                     const TensorView& z, const TensorView& out) const {
    SCD_RETURN_IF_ERROR(backend.MatMul(stream, x, *owner_.a_, z, {.columns = latent}));
    for (std::size_t i = begin_; i < end_; ++i) {
      const Part& part = owner_.parts_[i];
      SCD_RETURN_IF_ERROR(
          backend.MatMul(stream, z.columns(part.latent.begin - latent.begin, part.b->in_features()), *part.b,
                         out.columns(part.column - first_column_, part.width), {.accumulate = true}));
    }
    return absl::OkStatus();
  }

  const LowRankUpdates& owner_;
  const std::size_t begin_;
  const std::size_t end_;
  const std::int64_t first_column_;  // of the product that `out` begins at
};

LowRankUpdates::~LowRankUpdates() = default;

std::int64_t LowRankUpdates::size_bytes() const {
  std::int64_t bytes = a_->size_bytes();
  for (const Part& part : parts_) bytes += part.b->size_bytes();
  return bytes;
}

absl::StatusOr<std::unique_ptr<LowRankUpdates>> LowRankUpdates::Create(
    Backend& backend, std::int64_t in_features, absl::Span<const std::int64_t> widths,
    absl::Span<const std::optional<LowRankMatrices>> adapters) {
  auto out = absl::WrapUnique(new LowRankUpdates());
  out->single_.resize(adapters.size());
  std::vector<float> a;
  std::vector<std::int64_t> cuts;
  std::int64_t column = 0;
  std::int64_t latent = 0;
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    if (adapters[i]) {
      const std::int64_t padded = PaddedRank(adapters[i]->rank);
      if (latent > 0) cuts.push_back(latent);
      a.insert(a.end(), adapters[i]->a.begin(), adapters[i]->a.end());
      a.resize(static_cast<std::size_t>((latent + padded) * in_features), 0.0F);
      SCD_ASSIGN_OR_RETURN(std::unique_ptr<PackedWeight> b, PackB(backend, *adapters[i], widths[i]));
      const std::size_t part = out->parts_.size();
      out->parts_.push_back(Part{column, widths[i], {latent, latent + padded}, std::move(b)});
      out->single_[i] = std::make_unique<Update>(*out, part, part + 1, column);
      latent += padded;
    }
    column += widths[i];
  }
  if (out->parts_.empty()) return nullptr;
  PackOptions options = kInt8;
  options.cuts = cuts;
  SCD_ASSIGN_OR_RETURN(
      out->a_,
      backend.PackWeight(ConstTensorView(a.data(), DType::kF32, {latent, in_features}), {}, options));
  out->all_ = std::make_unique<Update>(*out, 0, out->parts_.size(), 0);
  return out;
}

}  // namespace scd
