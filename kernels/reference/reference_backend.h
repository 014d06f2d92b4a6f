// The reference backend: every op as its definition reads, in plain loops, so that it can be checked by eye.
// Sums are kept in double. The other backends are tested against it; it is far too slow to serve with.
#ifndef SCD_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
#define SCD_KERNELS_REFERENCE_REFERENCE_BACKEND_H_

#include <memory>
#include <string>
#include <string_view>

#include "kernels/backend_factory.h"
#include "kernels/host_backend.h"

namespace scd {

class ReferenceBackend final : public HostBackend {
 public:
  // With MathMode::kBF16 weights and activations of MatMul are rounded to bf16; kAuto is f32.
  static absl::StatusOr<std::unique_ptr<Backend>> Create(const BackendOptions& options);

  std::string_view name() const override { return "reference"; }
  std::string Describe() const override;

  absl::Status Copy(Stream& stream, TensorView dst, ConstTensorView src) override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackQuantized(const QuantizedMatrix& weight,
                                                              ConstTensorView bias,
                                                              absl::Span<const std::int64_t> cuts) override;
  absl::Status MatMul(Stream& stream, ConstTensorView x, const PackedWeight& weight, TensorView out,
                      const MatMulOptions& options) override;
  absl::Status Gemm(Stream& stream, ConstTensorView a, ConstTensorView b, TensorView c,
                    const GemmOptions& options) override;
  absl::Status RmsNorm(Stream& stream, ConstTensorView x, ConstTensorView weight, float epsilon,
                       TensorView out) override;
  absl::Status Rope(Stream& stream, TensorView x, ConstTensorView positions, const RopeTable& table) override;
  absl::Status SwiGlu(Stream& stream, ConstTensorView gate, ConstTensorView up, TensorView out) override;
  absl::Status Silu(Stream& stream, TensorView x) override;
  absl::Status Embed(Stream& stream, ConstTensorView table, ConstTensorView ids, TensorView out) override;
  absl::Status WriteKv(Stream& stream, ConstTensorView k, ConstTensorView v, ConstTensorView positions,
                       const PagedKv& kv) override;
  absl::Status DecodeIntoKv(Stream& stream, ConstTensorView codes, const PackedWeight& decoder, KvPart part,
                            ConstTensorView positions, const RopeTable* rope, const PagedKv& kv) override;
  absl::Status Attention(Stream& stream, ConstTensorView q, absl::Span<const AttentionSequence> sequences,
                         const AttentionOptions& options, TensorView out) override;

 protected:
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackDense(ConstTensorView weight, ConstTensorView bias,
                                                          absl::Span<const std::int64_t> cuts) override;

 private:
  explicit ReferenceBackend(bool round_to_bf16) : round_to_bf16_(round_to_bf16) {}

  const bool round_to_bf16_;
};

}  // namespace scd

#endif  // SCD_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
