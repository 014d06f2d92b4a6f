// Checks of the ops that work on the KV cache.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/bad_operand.h"
#include "kernels/checks.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::initializer_list<DType> kFloat = {DType::kF32};
constexpr std::initializer_list<DType> kIndex = {DType::kI32};
constexpr std::initializer_list<DType> kPages = {DType::kF32, DType::kBF16, DType::kI8};

absl::Status CheckPages(std::string_view op, const PagedKv& kv, Device device) {
  SCD_RETURN_IF_ERROR(
      CheckOperand(op, "k_pages", kv.k_pages, device, kPages, {kAnyDim, kAnyDim, kAnyDim, kAnyDim}));
  const Shape& shape = kv.k_pages.shape();
  SCD_RETURN_IF_ERROR(CheckOperand(op, "v_pages", kv.v_pages, device, {kv.k_pages.dtype()},
                                   {shape[0], shape[1], shape[2], shape[3]}));
  if (kv.k_pages.dtype() == DType::kI8) {
    SCD_RETURN_IF_ERROR(
        CheckOperand(op, "k_scales", kv.k_scales, device, kFloat, {shape[0], shape[1], shape[2]}));
    SCD_RETURN_IF_ERROR(
        CheckOperand(op, "v_scales", kv.v_scales, device, kFloat, {shape[0], shape[1], shape[2]}));
  }
  return CheckOperand(op, "block_table", kv.block_table, device, kIndex, {kAnyDim});
}

}  // namespace

absl::Status CheckWriteKv(const ConstTensorView& k, const ConstTensorView& v,
                          const ConstTensorView& positions, const PagedKv& kv, Device device) {
  constexpr std::string_view kOp = "WriteKv";
  SCD_RETURN_IF_ERROR(CheckPages(kOp, kv, device));
  const std::int64_t kv_heads = kv.k_pages.dim(1);
  const std::int64_t head_dim = kv.k_pages.dim(3);
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "positions", positions, device, kIndex, {kAnyDim}));
  if (k.empty() && v.empty()) return Bad(kOp, "k", "and v are both absent");
  const std::int64_t tokens = positions.dim(0);
  if (!k.empty())
    SCD_RETURN_IF_ERROR(CheckOperand(kOp, "k", k, device, kFloat, {tokens, kv_heads, head_dim}));
  if (!v.empty())
    SCD_RETURN_IF_ERROR(CheckOperand(kOp, "v", v, device, kFloat, {tokens, kv_heads, head_dim}));
  return absl::OkStatus();
}

namespace {

// A decoder of `columns` columns, d_kv of them for `kv`.
absl::Status CheckDecode(std::string_view op, const ConstTensorView& codes, const PackedWeight& decoder,
                         std::int64_t columns, const ConstTensorView& positions, const RopeTable* rope,
                         const PagedKv& kv, Device device) {
  SCD_RETURN_IF_ERROR(CheckPages(op, kv, device));
  const std::int64_t kv_heads = kv.k_pages.dim(1);
  const std::int64_t head_dim = kv.k_pages.dim(3);
  SCD_RETURN_IF_ERROR(CheckOperand(op, "codes", codes, device, {DType::kF32, DType::kBF16},
                                   {kAnyDim, decoder.in_features()}));
  if (columns != kv_heads * head_dim) {
    return Bad(op, "decoder", "makes ", columns, " columns for ", kv_heads, " heads of ", head_dim);
  }
  SCD_RETURN_IF_ERROR(CheckOperand(op, "positions", positions, device, kIndex, {codes.dim(0)}));
  if (rope == nullptr) return absl::OkStatus();
  if (head_dim % 2 != 0) return Bad(op, "rope", "cannot turn heads of odd size ", head_dim);
  return CheckRopeTable(op, "rope", *rope, head_dim, device);
}

}  // namespace

absl::Status CheckDecodeIntoKv(const ConstTensorView& codes, const PackedWeight& decoder,
                               const ConstTensorView& positions, const RopeTable* rope, const PagedKv& kv,
                               Device device) {
  return CheckDecode("DecodeIntoKv", codes, decoder, decoder.out_features(), positions, rope, kv, device);
}

absl::Status CheckDecodeManyIntoKv(const ConstTensorView& codes, const PackedWeight& decoder,
                                   const ConstTensorView& positions, absl::Span<const KvTarget> targets,
                                   Device device) {
  constexpr std::string_view kOp = "DecodeManyIntoKv";
  if (targets.empty()) return Bad(kOp, "targets", "has none");
  const std::int64_t columns = decoder.out_features() / static_cast<std::int64_t>(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const KvTarget& target = targets[i];
    SCD_RETURN_IF_ERROR(CheckDecode(kOp, codes, decoder, columns, positions, target.rope, target.kv, device));
    const std::int64_t end = columns * static_cast<std::int64_t>(i + 1);
    const absl::Span<const std::int64_t> cuts = decoder.cuts();
    if (i + 1 < targets.size() ? std::find(cuts.begin(), cuts.end(), end) == cuts.end()
                               : end != decoder.out_features()) {
      return Bad(kOp, "decoder", "of ", decoder.out_features(), " columns is not cut at ", end);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAttention(const ConstTensorView& q, absl::Span<const AttentionSequence> sequences,
                            const AttentionOptions& options, const ConstTensorView& out, Device device) {
  constexpr std::string_view kOp = "Attention";
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "q", q, device, kFloat, {kAnyDim, kAnyDim, kAnyDim}));
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "out", out, device, kFloat, {q.dim(0), q.dim(1), q.dim(2)}));
  if (!std::isfinite(options.scale)) return Bad(kOp, "options.scale", "is not finite");
  if (options.sliding_window < 0) return Bad(kOp, "options.sliding_window", "is ", options.sliding_window);

  std::vector<std::pair<std::int64_t, std::int64_t>> row_ranges;
  row_ranges.reserve(sequences.size());
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const AttentionSequence& sequence = sequences[i];
    const std::string operand = absl::StrCat("sequences[", i, "]");
    if (sequence.query_begin < 0 || sequence.query_count < 1 || sequence.query_count > q.dim(0) ||
        sequence.query_begin > q.dim(0) - sequence.query_count) {
      return Bad(kOp, operand, "has rows from ", sequence.query_begin, " count ", sequence.query_count,
                 ", q has ", q.dim(0));
    }
    row_ranges.emplace_back(sequence.query_begin, sequence.query_begin + sequence.query_count);
    SCD_RETURN_IF_ERROR(CheckPages(absl::StrCat(Text(kOp), ": ", operand), sequence.kv, device));
    const Shape& pages = sequence.kv.k_pages.shape();
    if (pages[3] != q.dim(2)) return Bad(kOp, operand, "has head_dim ", pages[3], ", q has ", q.dim(2));
    if (q.dim(1) % pages[1] != 0) {
      return Bad(kOp, operand, "has ", pages[1], " kv_heads, which do not divide the ", q.dim(1),
                 " heads of q");
    }
    const std::int64_t capacity = sequence.kv.block_table.dim(0) * pages[2];
    if (sequence.first_position < 0 || sequence.first_position > capacity - sequence.query_count) {
      return Bad(kOp, operand, "has positions from ", sequence.first_position, " count ",
                 sequence.query_count, ", its block table holds ", capacity);
    }
  }
  std::sort(row_ranges.begin(), row_ranges.end());
  for (std::size_t i = 1; i < row_ranges.size(); ++i) {
    if (row_ranges[i].first < row_ranges[i - 1].second) {
      return Bad(kOp, "sequences", "share row ", row_ranges[i].first);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBlockTable(std::string_view op, const PagedKv& kv, std::int64_t first_position,
                             std::int64_t last_position) {
  const std::int64_t page_tokens = kv.k_pages.dim(2);
  const std::int64_t first_page = first_position / page_tokens;
  const std::int64_t count = last_position / page_tokens - first_page + 1;
  return CheckIndices(op, "block_table", kv.block_table.rows(first_page, count), kv.k_pages.dim(0));
}

absl::Status CheckPositions(std::string_view op, const ConstTensorView& positions, const PagedKv& kv) {
  const std::int64_t page_tokens = kv.k_pages.dim(2);
  SCD_RETURN_IF_ERROR(CheckIndices(op, "positions", positions, kv.block_table.dim(0) * page_tokens));
  const std::int32_t* values = positions.as<std::int32_t>();
  std::int64_t checked_page = -1;
  for (std::int64_t t = 0; t < positions.dim(0); ++t) {
    if (values[t] / page_tokens == checked_page) continue;
    SCD_RETURN_IF_ERROR(CheckBlockTable(op, kv, values[t], values[t]));
    checked_page = values[t] / page_tokens;
  }
  return absl::OkStatus();
}

absl::Status CheckAttendedPages(const AttentionSequence& sequence, const AttentionOptions& options) {
  const std::int64_t first =
      options.sliding_window == 0 ? 0 : sequence.first_position - options.sliding_window + 1;
  return CheckBlockTable("Attention", sequence.kv, std::max<std::int64_t>(0, first),
                         sequence.first_position + sequence.query_count - 1);
}

}  // namespace scd
