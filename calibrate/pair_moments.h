// Means and second moments of paired rows (a of the producer, b of the consumer), accumulated streaming: what
// every closed form is made from. Memory is O((dim_a + dim_b)^2) whatever the number of rows.
//
// Rows are shifted by a pivot (the mean of the first block) before their products are formed in f32; sums
// over blocks are kept in double. So a large common offset cancels before it costs digits, not after. On a
// GPU blocks are queued and add up there (device_sums.h), and go to the host every few blocks.
#ifndef SCD_CALIBRATE_PAIR_MOMENTS_H_
#define SCD_CALIBRATE_PAIR_MOMENTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "calibrate/device_sums.h"
#include "calibrate/host_math.h"
#include "calibrate/matrix.h"

namespace scd {

// Centred: sum over rows of (x - mean)(y - mean)^T.
struct Moments {
  std::int64_t count = 0;
  std::vector<double> mean_a;  // [dim_a]
  std::vector<double> mean_b;  // [dim_b]
  Matrix aa;                   // [dim_a, dim_a]
  Matrix ab;                   // [dim_a, dim_b]
  Matrix bb;                   // [dim_b, dim_b]; empty where it was not asked for
};

class PairMoments {
 public:
  // Products of more rows than this are formed in pieces.
  static constexpr std::int64_t kBlockRows = 512;

  PairMoments(std::int64_t dim_a, std::int64_t dim_b, bool with_bb);

  // a [rows, dim_a], b [rows, dim_b], f32 on the host, first dimension may be strided; read when it returns.
  absl::Status Add(HostMath& math, ConstTensorView a, ConstTensorView b);

  // Brings to the host what `math`'s device holds, and gives the memory back there.
  absl::Status Settle(HostMath& math);

  std::int64_t count() const { return count_; }
  // FAILED_PRECONDITION before the first row.
  absl::StatusOr<Moments> Finish() const;

  // The whole state as doubles, to keep it and to go on from it later, on the CPU or a GPU.
  std::int64_t num_state_values() const;
  absl::Status SaveState(absl::Span<double> out) const;
  void LoadState(absl::Span<const double> in);

 private:
  absl::Status AddBlock(HostMath& math, ConstTensorView a, ConstTensorView b);
  absl::Status AddOnHost(HostMath& math, ConstTensorView a, ConstTensorView b);
  absl::Status AddOnDevice(DeviceProducts& products, ConstTensorView a, ConstTensorView b);
  absl::Status Collect(DeviceProducts& products);

  const std::int64_t dim_a_;
  const std::int64_t dim_b_;
  std::int64_t count_ = 0;
  std::vector<double> pivot_;           // [dim_a + dim_b], values of floats
  std::vector<double> sum_;             // [dim_a + dim_b], of shifted rows
  std::vector<double> aa_, ab_, bb_;    // of shifted rows
  std::unique_ptr<DeviceSums> device_;  // what is not in them yet; null where nothing was added on a device
};

}  // namespace scd

#endif  // SCD_CALIBRATE_PAIR_MOMENTS_H_
