// The cuda backend: products by cuBLASLt, all else by kernels of this folder.
//
// Ops are queued and return before they ran. Indices in device memory cannot be checked before that: an op
// that meets one out of its range leaves that row alone, and the stream's next Synchronize answers
// INVALID_ARGUMENT with the operand.
#ifndef SCD_KERNELS_CUDA_CUDA_BACKEND_H_
#define SCD_KERNELS_CUDA_CUDA_BACKEND_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/backend_factory.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/gemm.h"

namespace scd {

class CudaBackend final : public Backend {
 public:
  // FAILED_PRECONDITION where driver or GPU are missing or too old for this build, INVALID_ARGUMENT for
  // options out of range. MathMode::kAuto is bf16: every GPU that this is built for has it.
  static absl::StatusOr<std::unique_ptr<Backend>> Create(const BackendOptions& options);

  std::string_view name() const override { return "cuda"; }
  Device device() const override { return Device::kCuda; }
  std::string Describe() const override { return description_; }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(MemoryKind kind, std::size_t bytes) override;
  absl::StatusOr<std::optional<std::int64_t>> FreeDeviceBytes() override;
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(StreamUse use) override;
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override;
  absl::Status Record(Event& event, Stream& stream) override;
  absl::Status Wait(Stream& stream, const Event& event) override;
  absl::Status Await(const Event& event) override;
  absl::StatusOr<bool> Reached(const Event& event) override;
  absl::Status Synchronize(Stream& stream) override;
  // Not from host to host.
  absl::Status Copy(Stream& stream, TensorView dst, ConstTensorView src) override;

  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(ConstTensorView weight, ConstTensorView bias,
                                                           const PackOptions& options) override;
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

  absl::Status PackCodes(Stream& stream, ConstTensorView rows, const GroupedIntegers& layout,
                         TensorView bytes) override;
  absl::Status UnpackCodes(Stream& stream, ConstTensorView bytes, const GroupedIntegers& layout,
                           std::int64_t first_row, TensorView out) override;
  absl::Status TopLogits(Stream& stream, ConstTensorView logits, ConstTensorView temperatures,
                         const TopLogitsOut& best) override;
  absl::Status WriteKv(Stream& stream, ConstTensorView k, ConstTensorView v, ConstTensorView positions,
                       const PagedKv& kv) override;
  absl::Status DecodeIntoKv(Stream& stream, ConstTensorView codes, const PackedWeight& decoder, KvPart part,
                            ConstTensorView positions, const RopeTable* rope, const PagedKv& kv) override;
  absl::Status DecodeManyIntoKv(Stream& stream, ConstTensorView codes, const PackedWeight& decoder,
                                ConstTensorView positions, absl::Span<const KvTarget> targets) override;
  // head_dim is at most cuda::kMaxHeadDim.
  absl::Status Attention(Stream& stream, ConstTensorView q, absl::Span<const AttentionSequence> sequences,
                         const AttentionOptions& options, TensorView out) override;

 private:
  // Both of the above, whose operands were checked.
  absl::Status DecodeInto(std::string_view op, Stream& stream, ConstTensorView codes,
                          const PackedWeight& decoder, ConstTensorView positions,
                          absl::Span<const KvTarget> targets);
  CudaBackend(int device_index, std::size_t scratch_bytes, DType product_dtype,
              std::shared_ptr<cuda::DeviceMemory> memory, std::unique_ptr<cuda::GemmLibrary> library,
              std::string description);

  // Makes the device the calling thread's. INVALID_ARGUMENT for a stream of another backend, or for copies.
  absl::StatusOr<cuda::CudaStream*> Use(Stream& stream) const;
  // The same for copies and order.
  absl::StatusOr<cuda::CudaStream*> UseAny(Stream& stream) const;
  absl::StatusOr<cudaEvent_t> Use(const Event& event) const;
  absl::Status UseDevice() const;

  const int device_index_;
  const std::size_t scratch_bytes_;
  const DType product_dtype_;
  const std::shared_ptr<cuda::DeviceMemory> memory_;
  const std::unique_ptr<cuda::GemmLibrary> library_;
  const std::string description_;
};

}  // namespace scd

#endif  // SCD_KERNELS_CUDA_CUDA_BACKEND_H_
