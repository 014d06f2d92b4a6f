// A backend that calls a test before each attention, so that the test can hold a forward pass at a known
// place instead of racing it.
#ifndef SCD_TESTS_SUPPORT_GATED_BACKEND_H_
#define SCD_TESTS_SUPPORT_GATED_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "kernels/backend.h"

namespace scd::testing {

class GatedBackend : public Backend {
 public:
  explicit GatedBackend(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  // `gate` gets the number of attention calls before this one, over all passes; the pass goes on when it
  // returns.
  void SetGate(std::function<void(std::int64_t)> gate) {
    const absl::MutexLock lock(&mutex_);
    gate_ = std::move(gate);
    num_calls_ = 0;
  }

  absl::Status Attention(Stream& stream, ConstTensorView q, absl::Span<const AttentionSequence> sequences,
                         const AttentionOptions& options, TensorView out) override {
    std::function<void(std::int64_t)> gate;
    std::int64_t call = 0;
    {
      const absl::MutexLock lock(&mutex_);
      gate = gate_;
      call = num_calls_++;
    }
    if (gate) gate(call);
    return backend_->Attention(stream, q, sequences, options, out);
  }

  std::string_view name() const override { return backend_->name(); }
  Device device() const override { return backend_->device(); }
  std::string Describe() const override { return backend_->Describe(); }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(MemoryKind kind, std::size_t bytes) override {
    return backend_->Allocate(kind, bytes);
  }
  absl::StatusOr<std::optional<std::int64_t>> FreeDeviceBytes() override {
    return backend_->FreeDeviceBytes();
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(StreamUse use) override {
    return backend_->CreateStream(use);
  }
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override { return backend_->CreateEvent(); }
  absl::Status Record(Event& event, Stream& stream) override { return backend_->Record(event, stream); }
  absl::Status Wait(Stream& stream, const Event& event) override { return backend_->Wait(stream, event); }
  absl::Status Await(const Event& event) override { return backend_->Await(event); }
  absl::StatusOr<bool> Reached(const Event& event) override { return backend_->Reached(event); }
  absl::Status Synchronize(Stream& stream) override { return backend_->Synchronize(stream); }
  absl::Status Copy(Stream& stream, TensorView dst, ConstTensorView src) override {
    return backend_->Copy(stream, dst, src);
  }
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(ConstTensorView weight, ConstTensorView bias,
                                                           const PackOptions& options) override {
    return backend_->PackWeight(weight, bias, options);
  }
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackQuantized(const QuantizedMatrix& weight,
                                                              ConstTensorView bias,
                                                              absl::Span<const std::int64_t> cuts) override {
    return backend_->PackQuantized(weight, bias, cuts);
  }
  absl::Status DecodeIntoKv(Stream& stream, ConstTensorView codes, const PackedWeight& decoder, KvPart part,
                            ConstTensorView positions, const RopeTable* rope, const PagedKv& kv) override {
    return backend_->DecodeIntoKv(stream, codes, decoder, part, positions, rope, kv);
  }
  absl::Status DecodeManyIntoKv(Stream& stream, ConstTensorView codes, const PackedWeight& decoder,
                                ConstTensorView positions, absl::Span<const KvTarget> targets) override {
    return backend_->DecodeManyIntoKv(stream, codes, decoder, positions, targets);
  }
  absl::Status MatMul(Stream& stream, ConstTensorView x, const PackedWeight& weight, TensorView out,
                      const MatMulOptions& options) override {
    return backend_->MatMul(stream, x, weight, out, options);
  }
  absl::Status Gemm(Stream& stream, ConstTensorView a, ConstTensorView b, TensorView c,
                    const GemmOptions& options) override {
    return backend_->Gemm(stream, a, b, c, options);
  }
  absl::Status RmsNorm(Stream& stream, ConstTensorView x, ConstTensorView weight, float epsilon,
                       TensorView out) override {
    return backend_->RmsNorm(stream, x, weight, epsilon, out);
  }
  absl::Status Rope(Stream& stream, TensorView x, ConstTensorView positions,
                    const RopeTable& table) override {
    return backend_->Rope(stream, x, positions, table);
  }
  absl::Status SwiGlu(Stream& stream, ConstTensorView gate, ConstTensorView up, TensorView out) override {
    return backend_->SwiGlu(stream, gate, up, out);
  }
  absl::Status Silu(Stream& stream, TensorView x) override { return backend_->Silu(stream, x); }
  absl::Status Embed(Stream& stream, ConstTensorView table, ConstTensorView ids, TensorView out) override {
    return backend_->Embed(stream, table, ids, out);
  }
  absl::Status PackCodes(Stream& stream, ConstTensorView rows, const GroupedIntegers& layout,
                         TensorView bytes) override {
    return backend_->PackCodes(stream, rows, layout, bytes);
  }
  absl::Status UnpackCodes(Stream& stream, ConstTensorView bytes, const GroupedIntegers& layout,
                           std::int64_t first_row, TensorView out) override {
    return backend_->UnpackCodes(stream, bytes, layout, first_row, out);
  }
  absl::Status TopLogits(Stream& stream, ConstTensorView logits, ConstTensorView temperatures,
                         const TopLogitsOut& best) override {
    return backend_->TopLogits(stream, logits, temperatures, best);
  }
  absl::Status WriteKv(Stream& stream, ConstTensorView k, ConstTensorView v, ConstTensorView positions,
                       const PagedKv& kv) override {
    return backend_->WriteKv(stream, k, v, positions, kv);
  }

 private:
  const std::unique_ptr<Backend> backend_;
  absl::Mutex mutex_;
  std::function<void(std::int64_t)> gate_ ABSL_GUARDED_BY(mutex_);
  std::int64_t num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_SUPPORT_GATED_BACKEND_H_
