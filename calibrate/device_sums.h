// What PairMoments keeps on a GPU: sums of products of rows in f32, without TF32, over no more rows than f32
// is good for; then they go to the host and are added up in double.
#ifndef SCD_CALIBRATE_DEVICE_SUMS_H_
#define SCD_CALIBRATE_DEVICE_SUMS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibrate/device_products.h"

namespace scd {

class DeviceSums {
 public:
  // Rows that are added up in f32 at most.
  static constexpr std::int64_t kMostRows = 4096;

  // Device memory of 4 (dim_a^2 + dim_a dim_b + dim_b^2) bytes, the last where with_bb.
  static std::int64_t Bytes(std::int64_t dim_a, std::int64_t dim_b, bool with_bb);

  // RESOURCE_EXHAUSTED, saying how much is needed, where the memory is not there. `backend` outlives this.
  static absl::StatusOr<std::unique_ptr<DeviceSums>> Create(Backend& backend, std::int64_t dim_a,
                                                            std::int64_t dim_b, bool with_bb);

  // Queues a^T a, a^T b and b^T b of `rows` behind earlier additions, whoever queued them. `products` is of
  // this backend, and has sent `rows`.
  absl::Status Add(DeviceProducts& products, const DeviceProducts::DeviceRows& rows);

  // Rows in the sums.
  std::int64_t num_rows() const { return num_rows_; }
  void Clear() { num_rows_ = 0; }

  // Adds the sums to [dim_a, dim_a], [dim_a, dim_b] and [dim_b, dim_b]; bb may be null where there is none.
  absl::Status AddTo(DeviceProducts& products, double* aa, double* ab, double* bb) const;
  // The same with streams of its own.
  absl::Status AddTo(double* aa, double* ab, double* bb) const;

 private:
  DeviceSums(Backend& backend, std::int64_t dim_a, std::int64_t dim_b)
      : backend_(backend), dim_a_(dim_a), dim_b_(dim_b) {}

  Backend& backend_;
  const std::int64_t dim_a_;
  const std::int64_t dim_b_;
  std::unique_ptr<Buffer> aa_, ab_, bb_;  // bb_ null where it was not asked for
  std::unique_ptr<Event> added_;
  std::int64_t num_rows_ = 0;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_DEVICE_SUMS_H_
