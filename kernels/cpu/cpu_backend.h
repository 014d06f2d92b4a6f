// The cpu backend: products by oneDNN, pointwise ops and attention vectorised for the instruction set found
// at run time, all divided over the backend's own threads.
#ifndef SCD_KERNELS_CPU_CPU_BACKEND_H_
#define SCD_KERNELS_CPU_CPU_BACKEND_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/backend_factory.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/host_backend.h"

namespace scd {

class CpuBackend final : public HostBackend {
 public:
  // With MathMode::kAuto products are in bf16 where the CPU has instructions for it, else in f32.
  // INVALID_ARGUMENT where num_threads is out of range, RESOURCE_EXHAUSTED where the system refuses so many.
  static absl::StatusOr<std::unique_ptr<Backend>> Create(const BackendOptions& options);

  std::string_view name() const override { return "cpu"; }
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
  enum class Products { kF32, kEmulatedBf16, kOneDnnBf16 };

  CpuBackend(std::unique_ptr<cpu::ThreadPool> pool, std::unique_ptr<cpu::ThreadPool> callers_own,
             Products products)
      : pool_(std::move(pool)), callers_own_(std::move(callers_own)), products_(products) {}

  const std::unique_ptr<cpu::ThreadPool> pool_;
  // Of one thread: what is handed to it runs on the thread that calls, such as one that runs a task of pool_.
  const std::unique_ptr<cpu::ThreadPool> callers_own_;
  const Products products_;
};

}  // namespace scd

#endif  // SCD_KERNELS_CPU_CPU_BACKEND_H_
