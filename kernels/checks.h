// Operand checks shared by every backend: each answers OK or INVALID_ARGUMENT with the op, the operand and
// what was expected of it. Only views are looked at, never the memory behind them, except by the functions at
// the end, which are for backends that run on the host.
#ifndef SCD_KERNELS_CHECKS_H_
#define SCD_KERNELS_CHECKS_H_

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"

namespace scd {

// In an expected shape: any size of at least 1; in the first dimension also 0.
inline constexpr std::int64_t kAnyDim = -1;

// One operand of one op: rank and sizes as `expected`, one of `dtypes`, on `device`, all dimensions but the
// first contiguous, and not absent unless it has no elements.
absl::Status CheckOperand(std::string_view op, std::string_view operand, const ConstTensorView& view,
                          Device device, std::initializer_list<DType> dtypes,
                          std::initializer_list<std::int64_t> expected);

absl::Status CheckCopy(const ConstTensorView& dst, const ConstTensorView& src);
absl::Status CheckPackWeight(const ConstTensorView& weight, const ConstTensorView& bias,
                             const PackOptions& options);
absl::Status CheckPackQuantized(const QuantizedMatrix& weight, const ConstTensorView& bias,
                                absl::Span<const std::int64_t> cuts);
absl::Status CheckMatMul(const ConstTensorView& x, const PackedWeight& weight, const ConstTensorView& out,
                         const MatMulOptions& options, Device device);
absl::Status CheckGemm(const ConstTensorView& a, const ConstTensorView& b, const ConstTensorView& c,
                       const GemmOptions& options, Device device);
absl::Status CheckRmsNorm(const ConstTensorView& x, const ConstTensorView& weight, float epsilon,
                          const ConstTensorView& out, Device device);
// `operand` in what is said of it; as Rope takes it for heads of head_dim.
absl::Status CheckRopeTable(std::string_view op, std::string_view operand, const RopeTable& table,
                            std::int64_t head_dim, Device device);
absl::Status CheckRope(const ConstTensorView& x, const ConstTensorView& positions, const RopeTable& table,
                       Device device);
absl::Status CheckSwiGlu(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& out,
                         Device device);
absl::Status CheckSilu(const ConstTensorView& x, Device device);
absl::Status CheckEmbed(const ConstTensorView& table, const ConstTensorView& ids, const ConstTensorView& out,
                        Device device);
absl::Status CheckPackCodes(const ConstTensorView& rows, const GroupedIntegers& layout,
                            const ConstTensorView& bytes, Device device);
absl::Status CheckUnpackCodes(const ConstTensorView& bytes, const GroupedIntegers& layout,
                              std::int64_t first_row, const ConstTensorView& out, Device device);
absl::Status CheckTopLogits(const ConstTensorView& logits, const ConstTensorView& temperatures,
                            const TopLogitsOut& best, Device device);
absl::Status CheckWriteKv(const ConstTensorView& k, const ConstTensorView& v,
                          const ConstTensorView& positions, const PagedKv& kv, Device device);
absl::Status CheckDecodeIntoKv(const ConstTensorView& codes, const PackedWeight& decoder,
                               const ConstTensorView& positions, const RopeTable* rope, const PagedKv& kv,
                               Device device);
absl::Status CheckDecodeManyIntoKv(const ConstTensorView& codes, const PackedWeight& decoder,
                                   const ConstTensorView& positions, absl::Span<const KvTarget> targets,
                                   Device device);
absl::Status CheckAttention(const ConstTensorView& q, absl::Span<const AttentionSequence> sequences,
                            const AttentionOptions& options, const ConstTensorView& out, Device device);

// `columns` of a product with `weight`, with the end filled in.
ColumnRange ResultColumns(const PackedWeight& weight, ColumnRange columns);

// --- values in host memory ---

// Every element of `indices` [n] i32 is in [0, limit).
absl::Status CheckIndices(std::string_view op, std::string_view operand, const ConstTensorView& indices,
                          std::int64_t limit);

// The block table names pages of the pool for each page that positions [first, last] lie in; an earlier entry
// may be anything.
absl::Status CheckBlockTable(std::string_view op, const PagedKv& kv, std::int64_t first_position,
                             std::int64_t last_position);

// Every position [tokens] i32 lies in a page of the block table that is one of the pool.
absl::Status CheckPositions(std::string_view op, const ConstTensorView& positions, const PagedKv& kv);

// The same as CheckBlockTable for every page that the rows of `sequence` attend to.
absl::Status CheckAttendedPages(const AttentionSequence& sequence, const AttentionOptions& options);

}  // namespace scd

#endif  // SCD_KERNELS_CHECKS_H_
