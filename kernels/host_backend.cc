#include "kernels/host_backend.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/checks.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::align_val_t kAlignment{64};

struct AlignedDelete {
  void operator()(std::byte* data) const { ::operator delete(data, kAlignment); }
};

class HostBuffer final : public Buffer {
 public:
  HostBuffer(std::unique_ptr<std::byte, AlignedDelete> data, std::size_t bytes)
      : data_(std::move(data)), bytes_(bytes) {}

  void* data() const override { return data_.get(); }
  std::size_t size_bytes() const override { return bytes_; }
  Device device() const override { return Device::kHost; }

 private:
  std::unique_ptr<std::byte, AlignedDelete> data_;
  std::size_t bytes_;
};

class HostStream final : public Stream {};

class HostEvent final : public Event {
 public:
  void Record() { recordings_.fetch_add(1, std::memory_order_release); }
  void Wait() const { static_cast<void>(recordings_.load(std::memory_order_acquire)); }

 private:
  std::atomic<std::uint64_t> recordings_{0};
};

absl::Status ForeignEvent() {
  return absl::InvalidArgumentError("event belongs to another backend");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Buffer>> HostBackend::Allocate(MemoryKind /*kind*/, std::size_t bytes) {
  constexpr std::size_t kMaxBytes = std::numeric_limits<std::ptrdiff_t>::max() / 2;
  void* data = nullptr;
  if (bytes <= kMaxBytes) data = ::operator new(std::max<std::size_t>(bytes, 1), kAlignment, std::nothrow);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no host memory for a buffer of ", bytes, " bytes"));
  }
  std::unique_ptr<std::byte, AlignedDelete> owned(static_cast<std::byte*>(data));
  return std::make_unique<HostBuffer>(std::move(owned), bytes);
}

absl::StatusOr<std::unique_ptr<Stream>> HostBackend::CreateStream(StreamUse /*use*/) {
  return std::make_unique<HostStream>();
}

absl::StatusOr<std::unique_ptr<Event>> HostBackend::CreateEvent() {
  return std::make_unique<HostEvent>();
}

absl::Status HostBackend::Record(Event& event, Stream& /*stream*/) {
  auto* host_event = dynamic_cast<HostEvent*>(&event);
  if (host_event == nullptr) return ForeignEvent();
  host_event->Record();
  return absl::OkStatus();
}

absl::Status HostBackend::Wait(Stream& /*stream*/, const Event& event) {
  return Await(event);
}

absl::Status HostBackend::Await(const Event& event) {
  const auto* host_event = dynamic_cast<const HostEvent*>(&event);
  if (host_event == nullptr) return ForeignEvent();
  host_event->Wait();
  return absl::OkStatus();
}

absl::StatusOr<bool> HostBackend::Reached(const Event& event) {
  SCD_RETURN_IF_ERROR(Await(event));
  return true;
}

absl::Status HostBackend::Synchronize(Stream& /*stream*/) {
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PackedWeight>> HostBackend::PackWeight(ConstTensorView weight,
                                                                      ConstTensorView bias,
                                                                      const PackOptions& options) {
  SCD_RETURN_IF_ERROR(CheckPackWeight(weight, bias, options));
  if (options.format == WeightFormat::kDense) return PackDense(weight, bias, options.cuts);
  SCD_ASSIGN_OR_RETURN(const QuantizedMatrix matrix,
                       QuantizeMatrix(weight, options.format == WeightFormat::kInt4 ? 4 : 8));
  return PackQuantized(matrix, bias, options.cuts);
}

}  // namespace scd
