// All device math of the project, behind one interface shaped by streams and events.
//
// Every op is queued on a Stream and may return before it ran; results are valid after Synchronize, or on the
// device for later ops of the same stream, or of another stream after Record + Wait. The CPU backends run ops
// at once on the calling thread (and their own pool), so for them a stream is only an order. Ops of different
// streams may be called from different threads at the same time; ops of one stream may not.
//
// Unless an op says otherwise every tensor is f32, on this backend's device, last dimension contiguous. An op
// checks shapes, dtypes and devices and answers INVALID_ARGUMENT naming the operand; it never aborts. Indices
// (positions, ids, block tables) are checked too: in host memory before anything is written; in device memory
// where they are used, which leaves the row of a bad one alone and lets the stream's next Synchronize answer.
// No op allocates device memory that outlives the call.
#ifndef SCD_KERNELS_BACKEND_H_
#define SCD_KERNELS_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/grouped_integers.h"
#include "kernels/paged_kv.h"
#include "kernels/quantized_matrix.h"
#include "kernels/rope_table.h"
#include "kernels/tensor_view.h"

namespace scd {

// An order of queued work.
class Stream {
 public:
  virtual ~Stream() = default;
};

// A point in a stream's order that another stream or the host can wait for.
class Event {
 public:
  virtual ~Event() = default;
};

// Owned memory; freed on destruction. Contents are undefined after allocation.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() const = 0;
  virtual std::size_t size_bytes() const = 0;
  virtual Device device() const = 0;

  // A contiguous view of the first bytes; dtype and shape must fit into size_bytes().
  TensorView View(DType dtype, const Shape& shape) const {
    return TensorView(data(), dtype, shape, device());
  }
};

enum class StreamUse : std::uint8_t {
  kOps,
  kCopies,  // only Copy between equal dtypes: takes no memory for other ops
};

enum class MemoryKind : std::uint8_t {
  kDevice,   // where ops run
  kStaging,  // host memory that copies to and from the device fast (pinned for CUDA)
};

// How products are computed. kAuto: bf16 with f32 accumulation where the CPU or GPU has it in hardware, else
// f32.
enum class MathMode : std::uint8_t { kAuto, kF32, kBF16 };

// A weight matrix (and bias) in the layout that this backend multiplies fastest with. Belongs to its backend.
class PackedWeight {
 public:
  virtual ~PackedWeight() = default;
  virtual std::int64_t in_features() const = 0;
  virtual std::int64_t out_features() const = 0;
  // PackOptions::cuts.
  virtual absl::Span<const std::int64_t> cuts() const = 0;
  // Memory that its numbers take.
  virtual std::int64_t size_bytes() const = 0;
};

// How PackWeight keeps the numbers of a matrix.
enum class WeightFormat : std::uint8_t {
  kDense,  // f32 or bf16, as the backend's MathMode says
  kInt8,   // integers in groups of 32 (QuantizeMatrix)
  kInt4,
};

struct PackOptions {
  WeightFormat format = WeightFormat::kDense;
  // Ascending, inside (0, out_features): where MatMulOptions may cut the columns of the result. Several
  // matrices that are multiplied with one x (Q, K and V; gate and up) are packed as one, cut between them.
  // Copied.
  absl::Span<const std::int64_t> cuts = {};
};

// Columns [begin, end) of a product's result, each 0, out_features or one of the weight's cuts.
struct ColumnRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // 0: out_features
};

struct MatMulOptions {
  bool accumulate = false;   // out += x W^T + b instead of out = x W^T + b
  ColumnRange columns = {};  // only these are computed; out has as many columns
};

enum class KvPart : std::uint8_t { kK, kV };

// Where DecodeManyIntoKv puts its columns of one part of one layer.
struct KvTarget {
  KvPart part = KvPart::kK;
  const RopeTable* rope = nullptr;  // nullptr: as they are
  PagedKv kv;
};

struct GemmOptions {
  bool transpose_a = false;  // a is stored [k, m]
  bool transpose_b = false;  // b is stored [n, k]
  float alpha = 1.0f;
  float beta = 0.0f;  // c = alpha * a b + beta * c; with 0 the old c is not read
};

struct AttentionOptions {
  float scale = 1.0f;               // applied to q k^T, normally 1 / sqrt(head_dim)
  std::int64_t sliding_window = 0;  // row at position p attends to (p - sliding_window, p]; 0: no window
};

inline constexpr std::int64_t kMaxTopLogits = 256;

struct TopLogitsOut {
  TensorView values;  // [rows, k]
  TensorView ids;     // [rows, k] i32
  // [rows, 2]: sums over the vocabulary of exp(logit - best) and exp((logit - best) / temperature), with
  // temperatures [rows]; 0: as 1.
  TensorView sums;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // "reference", "cpu", "cuda".
  virtual std::string_view name() const = 0;
  virtual Device device() const = 0;
  // One line for start-up logs: library, instruction set, threads, math mode.
  virtual std::string Describe() const = 0;

  // --- memory and order ---
  // RESOURCE_EXHAUSTED where the memory is not there.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(MemoryKind kind, std::size_t bytes) = 0;
  // Device memory that Allocate may still give, where the device has memory of its own; nullopt: it is the
  // host's.
  virtual absl::StatusOr<std::optional<std::int64_t>> FreeDeviceBytes() { return std::nullopt; }
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream(StreamUse use = StreamUse::kOps) = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;
  virtual absl::Status Record(Event& event, Stream& stream) = 0;
  virtual absl::Status Wait(Stream& stream, const Event& event) = 0;
  // The host waits for what was queued before the event was last recorded; an event that never was is
  // reached. Bad indices are Synchronize's to report.
  virtual absl::Status Await(const Event& event) = 0;
  // Whether Await would not wait.
  virtual absl::StatusOr<bool> Reached(const Event& event) = 0;
  virtual absl::Status Synchronize(Stream& stream) = 0;

  // dst and src have one shape; dtypes among f32, f16, bf16 are converted, others must be equal. Host <->
  // device and device <-> device; both may be strided in the first dimension.
  virtual absl::Status Copy(Stream& stream, TensorView dst, ConstTensorView src) = 0;

  // --- weights ---
  // weight: [out, in] f32, f16 or bf16 on the host, for kInt8 and kInt4 with `in` a multiple of kWeightGroup;
  // bias: [out] f32 on the host or empty.
  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(ConstTensorView weight,
                                                                   ConstTensorView bias,
                                                                   const PackOptions& options = {}) = 0;

  // A matrix that is quantised already, without another rounding; bias and cuts as above. Products of few
  // rows round each row of x to 8 bits in groups of 32; products of many rows take x as it is.
  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> PackQuantized(
      const QuantizedMatrix& weight, ConstTensorView bias, absl::Span<const std::int64_t> cuts = {}) = 0;

  // out[rows, out_features] = x[rows, in_features] W^T + bias; with options.columns only those of out.
  virtual absl::Status MatMul(Stream& stream, ConstTensorView x, const PackedWeight& weight, TensorView out,
                              const MatMulOptions& options = {}) = 0;

  // General dense product, always in f32: c[m, n] = alpha * op(a)[m, k] op(b)[k, n] + beta * c.
  virtual absl::Status Gemm(Stream& stream, ConstTensorView a, ConstTensorView b, TensorView c,
                            const GemmOptions& options = {}) = 0;

  // --- pointwise ---
  // out[rows, dim] = x / sqrt(mean(x^2) + epsilon) * weight[dim]; out may be x. For per-head norms view
  // [tokens, heads, head_dim] as [tokens * heads, head_dim].
  virtual absl::Status RmsNorm(Stream& stream, ConstTensorView x, ConstTensorView weight, float epsilon,
                               TensorView out) = 0;

  // Turns x [tokens, heads, head_dim] in place; positions [tokens] i32, each in [0, rows of the table).
  virtual absl::Status Rope(Stream& stream, TensorView x, ConstTensorView positions,
                            const RopeTable& table) = 0;

  // out[rows, dim] = silu(gate[rows, dim]) * up[rows, dim]; out may be gate or up.
  virtual absl::Status SwiGlu(Stream& stream, ConstTensorView gate, ConstTensorView up, TensorView out) = 0;

  // x[rows, dim] = x * sigmoid(x), in place.
  virtual absl::Status Silu(Stream& stream, TensorView x) = 0;

  // out[tokens, dim] = table[ids[tokens]]; table [vocabulary, dim] f32, f16 or bf16; ids i32, each checked.
  virtual absl::Status Embed(Stream& stream, ConstTensorView table, ConstTensorView ids, TensorView out) = 0;

  // --- codes ---
  // rows [n, columns] -> bytes [layout.BytesOf(n)] u8, the same on every backend.
  virtual absl::Status PackCodes(Stream& stream, ConstTensorView rows, const GroupedIntegers& layout,
                                 TensorView bytes) = 0;

  // Rows [first_row, first_row + n) of what `bytes` [any] u8 hold, which begin with a granule -> out
  // [n, columns] f32 or bf16, the same on every backend.
  virtual absl::Status UnpackCodes(Stream& stream, ConstTensorView bytes, const GroupedIntegers& layout,
                                   std::int64_t first_row, TensorView out) = 0;

  // --- sampling ---
  // Of each row of logits [rows, vocabulary] its k = best.values.dim(1) largest, best first, equal ones by id
  // (k at most kMaxTopLogits and the vocabulary), and the sums of its softmax. Of a row that holds NaN or
  // +infinity, or nothing but -infinity, the sums are NaN, and values and ids anything.
  virtual absl::Status TopLogits(Stream& stream, ConstTensorView logits, ConstTensorView temperatures,
                                 const TopLogitsOut& best) = 0;

  // --- KV cache ---
  // Puts k (after RoPE) and v [tokens, kv_heads, head_dim] at positions [tokens] i32 of one sequence's pages,
  // in their dtype: to bf16 rounded to nearest, to i8 with scale = largest magnitude of the vector / 127.
  // Either k or v may be an empty view: then only the other is written.
  virtual absl::Status WriteKv(Stream& stream, ConstTensorView k, ConstTensorView v,
                               ConstTensorView positions, const PagedKv& kv) = 0;

  // A frame of Reuse codes into pages in one pass: codes [tokens, rank] f32 or bf16 times `decoder` [d_kv,
  // rank], plus its bias, turned by `rope` (nullptr: as it is) at `positions` [tokens] i32, and written as K
  // or V there.
  virtual absl::Status DecodeIntoKv(Stream& stream, ConstTensorView codes, const PackedWeight& decoder,
                                    KvPart part, ConstTensorView positions, const RopeTable* rope,
                                    const PagedKv& kv) = 0;

  // The same for several parts and layers with one product: decoder [targets d_kv, rank], cut between the
  // targets. Their pages have one shape.
  virtual absl::Status DecodeManyIntoKv(Stream& stream, ConstTensorView codes, const PackedWeight& decoder,
                                        ConstTensorView positions, absl::Span<const KvTarget> targets) = 0;

  // Causal attention of q (after RoPE) [rows, heads, head_dim] over paged KV, grouped queries (heads is a
  // multiple of the pages' kv_heads); out [rows, heads, head_dim]. Sequences' rows do not overlap. Never
  // materialises a [rows, positions] matrix.
  virtual absl::Status Attention(Stream& stream, ConstTensorView q,
                                 absl::Span<const AttentionSequence> sequences,
                                 const AttentionOptions& options, TensorView out) = 0;
};

}  // namespace scd

#endif  // SCD_KERNELS_BACKEND_H_
