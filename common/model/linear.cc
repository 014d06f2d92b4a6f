#include "common/model/linear.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

std::string WeightName(WeightKind kind, std::int64_t layer) {
  const std::string name(WeightKindName(kind));
  return layer < 0 ? name : absl::StrCat("layer ", layer, " ", name);
}

absl::Status Annotate(const absl::Status& status, const std::string& name) {
  return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
}

std::vector<std::int64_t> CutsBetween(absl::Span<const std::int64_t> widths) {
  std::vector<std::int64_t> cuts;
  std::int64_t column = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) cuts.push_back(column += widths[i]);
  return cuts;
}

ConstTensorView BiasView(const std::vector<float>& bias) {
  if (bias.empty()) return {};
  return ConstTensorView(bias.data(), DType::kF32, {static_cast<std::int64_t>(bias.size())});
}

// The rows of all matrices below each other. 4 bits where all have 4: their integers fit 8 bits unchanged.
QuantizedMatrix Stack(std::vector<StoredBlocks> parts) {
  if (parts.size() == 1) return std::move(parts.front().matrix);
  QuantizedMatrix out;
  out.bits = 4;
  out.in_features = parts.front().matrix.in_features;
  bool minimums = false;
  std::size_t num_values = 0;
  std::size_t num_scales = 0;
  for (const StoredBlocks& part : parts) {
    out.bits = std::max(out.bits, part.matrix.bits);
    out.out_features += part.matrix.out_features;
    minimums = minimums || !part.matrix.minimums.empty();
    num_values += part.matrix.values.size();
    num_scales += part.matrix.scales.size();
  }
  out.values.reserve(num_values);
  out.scales.reserve(num_scales);
  if (minimums) out.minimums.reserve(num_scales);
  for (const StoredBlocks& part : parts) {
    const QuantizedMatrix& m = part.matrix;
    out.values.insert(out.values.end(), m.values.begin(), m.values.end());
    out.scales.insert(out.scales.end(), m.scales.begin(), m.scales.end());
    if (!minimums) continue;
    out.minimums.insert(out.minimums.end(), m.minimums.begin(), m.minimums.end());
    out.minimums.resize(out.scales.size(), 0.0F);
  }
  return out;
}

}  // namespace

Linear::Linear(std::unique_ptr<PackedWeight> packed, absl::Span<const std::int64_t> widths,
               std::unique_ptr<LowRankUpdates> updates)
    : packed_(std::move(packed)), updates_(std::move(updates)) {
  all_ = {.weight = packed_.get(), .columns = {}, .update = updates_ == nullptr ? nullptr : updates_->all()};
  std::int64_t column = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const ProductUpdate* const update = updates_ == nullptr ? nullptr : updates_->of(i);
    parts_.push_back({.weight = packed_.get(), .columns = {column, column + widths[i]}, .update = update});
    column += widths[i];
  }
}

std::int64_t Linear::size_bytes() const {
  return packed_->size_bytes() + (updates_ == nullptr ? 0 : updates_->size_bytes());
}

absl::Status LinearLoader::CheckShape(WeightKind kind, std::int64_t layer, const Shape& shape) const {
  const Shape expected = WeightShape(config_, kind);
  if (shape == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(WeightName(kind, layer), ": has shape ", shape.ToString(),
                                                 ", expected ", expected.ToString()));
}

absl::StatusOr<HostTensor> LinearLoader::Checked(WeightKind kind, std::int64_t layer,
                                                 absl::StatusOr<HostTensor> tensor) const {
  if (tensor.ok()) SCD_RETURN_IF_ERROR(CheckShape(kind, layer, tensor->view().shape()));
  return tensor;
}

absl::StatusOr<HostTensor> LinearLoader::LoadChecked(WeightKind kind, std::int64_t layer) const {
  return Checked(kind, layer, store_.Load(kind, layer));
}

absl::StatusOr<std::optional<StoredBlocks>> LinearLoader::LoadBlocks(WeightKind kind,
                                                                     std::int64_t layer) const {
  SCD_ASSIGN_OR_RETURN(std::optional<StoredBlocks> blocks, store_.LoadBlocks(kind, layer));
  if (!blocks) return std::nullopt;
  SCD_RETURN_IF_ERROR(CheckShape(kind, layer, {blocks->matrix.out_features, blocks->matrix.in_features}));
  return blocks;
}

absl::StatusOr<std::optional<StoredBlocks>> LinearLoader::Quantised(WeightKind kind,
                                                                    std::int64_t layer) const {
  const auto quantise = [&](absl::StatusOr<HostTensor> loaded, int bits,
                            const char* name) -> absl::StatusOr<std::optional<StoredBlocks>> {
    SCD_ASSIGN_OR_RETURN(const HostTensor tensor, Checked(kind, layer, std::move(loaded)));
    absl::StatusOr<QuantizedMatrix> matrix = QuantizeMatrix(tensor.view(), bits);
    if (!matrix.ok()) return Annotate(matrix.status(), WeightName(kind, layer));
    return StoredBlocks{.matrix = *std::move(matrix), .exact = false, .type_name = name};
  };
  switch (format_) {
    case WeightsFormat::kAuto:
      return LoadBlocks(kind, layer);
    case WeightsFormat::kInt8:
      return quantise(store_.Load(kind, layer), 8, "int8");
    case WeightsFormat::kInt4:
      if (layer < 0) return quantise(store_.LoadBase(kind, layer), 8, "int8");
      return quantise(store_.LoadBase(kind, layer), 4, "int4");
    case WeightsFormat::kF32:
    case WeightsFormat::kBF16:
      break;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<float>> LinearLoader::LoadBias(std::int64_t layer,
                                                          absl::Span<const LinearMatrix> matrices) const {
  std::vector<float> bias;
  for (const LinearMatrix& matrix : matrices) {
    if (!matrix.bias) continue;
    SCD_ASSIGN_OR_RETURN(HostTensor stored, LoadChecked(*matrix.bias, layer));
    const std::vector<float> values = std::move(stored).TakeFloats();
    bias.insert(bias.end(), values.begin(), values.end());
  }
  return bias;
}

absl::StatusOr<Linear> LinearLoader::Load(std::int64_t layer, absl::Span<const LinearMatrix> matrices) {
  std::vector<std::int64_t> widths;
  for (const LinearMatrix& matrix : matrices) widths.push_back(WeightShape(config_, matrix.kind)[0]);
  SCD_ASSIGN_OR_RETURN(const std::vector<float> bias, LoadBias(layer, matrices));
  SCD_ASSIGN_OR_RETURN(std::optional<Linear> quantised, LoadQuantised(layer, matrices, bias, widths));
  if (quantised) return *std::move(quantised);

  SCD_ASSIGN_OR_RETURN(HostTensor matrix, LoadChecked(matrices.front().kind, layer));
  if (matrices.size() > 1) {
    const std::int64_t columns = matrix.view().dim(1);
    std::vector<float> rows = std::move(matrix).TakeFloats();
    for (const LinearMatrix& next : matrices.subspan(1)) {
      SCD_ASSIGN_OR_RETURN(HostTensor more, LoadChecked(next.kind, layer));
      const std::vector<float> values = std::move(more).TakeFloats();
      rows.insert(rows.end(), values.begin(), values.end());
    }
    const auto num_rows = static_cast<std::int64_t>(rows.size()) / columns;
    matrix = HostTensor(std::move(rows), {num_rows, columns});
  }
  const std::vector<std::int64_t> cuts = CutsBetween(widths);
  auto packed = backend_.PackWeight(matrix.view(), BiasView(bias), {.cuts = cuts});
  if (!packed.ok()) return Annotate(packed.status(), WeightName(matrices.front().kind, layer));
  formats_.insert("dense");
  return Linear(*std::move(packed), widths, nullptr);
}

absl::StatusOr<std::optional<Linear>> LinearLoader::LoadQuantised(std::int64_t layer,
                                                                  absl::Span<const LinearMatrix> matrices,
                                                                  const std::vector<float>& bias,
                                                                  absl::Span<const std::int64_t> widths) {
  std::vector<StoredBlocks> parts;
  for (const LinearMatrix& matrix : matrices) {
    SCD_ASSIGN_OR_RETURN(std::optional<StoredBlocks> blocks, Quantised(matrix.kind, layer));
    if (!blocks) return std::nullopt;
    parts.push_back(*std::move(blocks));
  }
  std::vector<std::optional<LowRankMatrices>> adapters;
  for (const LinearMatrix& matrix : matrices) {
    adapters.emplace_back();
    if (format_ == WeightsFormat::kInt8) continue;  // merged
    SCD_ASSIGN_OR_RETURN(adapters.back(), store_.LoadLowRank(matrix.kind, layer));
  }
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<LowRankUpdates> updates,
                       LowRankUpdates::Create(backend_, parts.front().matrix.in_features, widths, adapters));
  for (const StoredBlocks& part : parts) formats_.insert(part.type_name);
  if (updates != nullptr) formats_.insert("adapter apart");
  const std::vector<std::int64_t> cuts = CutsBetween(widths);
  auto packed = backend_.PackQuantized(Stack(std::move(parts)), BiasView(bias), cuts);
  if (!packed.ok()) return Annotate(packed.status(), WeightName(matrices.front().kind, layer));
  return Linear(*std::move(packed), widths, std::move(updates));
}

absl::StatusOr<Linear> LinearLoader::Pack(const StoredBlocks& blocks) {
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<PackedWeight> packed, backend_.PackQuantized(blocks.matrix, {}));
  formats_.insert(blocks.type_name);
  const std::int64_t width = blocks.matrix.out_features;
  return Linear(std::move(packed), {&width, 1}, nullptr);
}

}  // namespace scd
