// An affine translator of one layer and kind in the layout of bundles: f32, one row for each output.
// z = a encoder^T + encoder_bias; b_hat = z decoder^T + decoder_bias. Rank r is the first r rows of the
// encoder and the first r columns of the decoder.
#ifndef SCD_CALIBRATE_TRANSLATOR_H_
#define SCD_CALIBRATE_TRANSLATOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "calibrate/host_math.h"
#include "calibrate/linear_fit.h"

namespace scd {

struct AffineTranslator {
  std::int64_t in = 0;
  std::int64_t rank = 0;
  std::int64_t out = 0;
  std::vector<float> encoder;       // [rank, in]
  std::vector<float> encoder_bias;  // [rank], -mean_a encoder^T
  std::vector<float> decoder;       // [out, rank]
  std::vector<float> decoder_bias;  // [out], mean_b
};

AffineTranslator MakeTranslator(const LinearFit& fit);

// z [rows, rank] of a [rows, in]; rank at most the translator's.
absl::Status EncodeRows(HostMath& math, const AffineTranslator& t, std::int64_t rank, ConstTensorView a,
                        TensorView z);
// b_hat [rows, out] of z [rows, rank].
absl::Status DecodeRows(HostMath& math, const AffineTranslator& t, std::int64_t rank, ConstTensorView z,
                        TensorView b);

// Sums for |X_hat - X| / |X - mean| over any number of rows.
class RelativeError {
 public:
  // mean: [dim]; predicted and actual: [rows, dim].
  void Add(ConstTensorView predicted, ConstTensorView actual, const std::vector<float>& mean);
  double value() const;  // 0 before the first row

 private:
  double error_ = 0;
  double spread_ = 0;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_TRANSLATOR_H_
