// What the backends that compute in host memory share: memory, streams and events, and ops that a CPU has
// little to gain from (codes are unpacked where they arrive, logits sampled where they are). Their ops have
// run when they return, so a stream carries nothing and waiting for an event only makes the recorder's writes
// visible.
#ifndef SCD_KERNELS_HOST_BACKEND_H_
#define SCD_KERNELS_HOST_BACKEND_H_

#include <memory>

#include "kernels/backend.h"

namespace scd {

class HostBackend : public Backend {
 public:
  Device device() const final { return Device::kHost; }

  // Aligned to 64 bytes.
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(MemoryKind kind, std::size_t bytes) final;
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(StreamUse use) final;
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() final;
  absl::Status Record(Event& event, Stream& stream) final;
  absl::Status Wait(Stream& stream, const Event& event) final;
  absl::Status Await(const Event& event) final;
  absl::StatusOr<bool> Reached(const Event& event) final;
  absl::Status Synchronize(Stream& stream) final;

  // Checks the operands, and quantises the weight first where the options say so.
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(ConstTensorView weight, ConstTensorView bias,
                                                           const PackOptions& options) final;

  absl::Status PackCodes(Stream& stream, ConstTensorView rows, const GroupedIntegers& layout,
                         TensorView bytes) final;
  absl::Status UnpackCodes(Stream& stream, ConstTensorView bytes, const GroupedIntegers& layout,
                           std::int64_t first_row, TensorView out) final;
  // Target by target: on a CPU nothing is gained by one large product.
  absl::Status DecodeManyIntoKv(Stream& stream, ConstTensorView codes, const PackedWeight& decoder,
                                ConstTensorView positions, absl::Span<const KvTarget> targets) final;
  absl::Status TopLogits(Stream& stream, ConstTensorView logits, ConstTensorView temperatures,
                         const TopLogitsOut& best) final;

 protected:
  // As PackWeight with WeightFormat::kDense; the operands were checked.
  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> PackDense(ConstTensorView weight,
                                                                  ConstTensorView bias,
                                                                  absl::Span<const std::int64_t> cuts) = 0;
};

}  // namespace scd

#endif  // SCD_KERNELS_HOST_BACKEND_H_
