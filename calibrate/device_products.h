// f32 products on a GPU of operands that lie on the host, in the order of one stream. Rows that are added up
// there go through two pinned buffers in turn, so that the host fills one while the other is copied and
// multiplied; it waits only until a buffer is free again. For one thread at a time.
#ifndef SCD_CALIBRATE_DEVICE_PRODUCTS_H_
#define SCD_CALIBRATE_DEVICE_PRODUCTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/tensor_view.h"

namespace scd {

class DeviceProducts {
 public:
  // Pinned rows, [rows, dim] f32 each.
  struct HostRows {
    TensorView a;
    TensorView b;
  };
  struct DeviceRows {
    ConstTensorView a;
    ConstTensorView b;
  };

  // `backend` outlives this.
  static absl::StatusOr<std::unique_ptr<DeviceProducts>> Create(Backend& backend);
  // Waits for what is queued.
  ~DeviceProducts();

  // c[m, n] = alpha op(a) op(b) + beta c; all f32 on the host. Waits for the result.
  absl::Status Gemm(ConstTensorView a, ConstTensorView b, TensorView c, const GemmOptions& options);

  // Room for the next rows, to be filled; then SendRows queues their copy and hands out where they will lie,
  // for work on stream(); then RowsUsed is called behind that work.
  absl::StatusOr<HostRows> NextRows(std::int64_t rows, std::int64_t dim_a, std::int64_t dim_b);
  absl::StatusOr<DeviceRows> SendRows();
  absl::Status RowsUsed();

  // Adds an f32 matrix of the device's memory, contiguous, to sum[num_elements]. Waits for it.
  absl::Status AddTo(ConstTensorView matrix, double* sum);

  Backend& backend() { return backend_; }
  Stream& stream() { return *stream_; }

 private:
  struct Slot {
    std::unique_ptr<Buffer> host;
    std::unique_ptr<Buffer> device;
    std::unique_ptr<Event> sent;
    std::unique_ptr<Event> used;
    Shape a, b;
  };
  explicit DeviceProducts(Backend& backend) : backend_(backend) {}
  absl::Status Grow(MemoryKind kind, std::size_t bytes, std::unique_ptr<Buffer>& buffer);

  Backend& backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Stream> copies_;
  std::array<Slot, 2> slots_;
  std::size_t turn_ = 0;
  std::unique_ptr<Buffer> a_, b_, c_;  // operands of Gemm
  std::unique_ptr<Buffer> panel_;      // pinned, of AddTo
};

}  // namespace scd

#endif  // SCD_CALIBRATE_DEVICE_PRODUCTS_H_
