// Finds the distortion of the entropy codec that meets a target, from measurements.
#ifndef SCD_CALIBRATE_RATE_SEARCH_H_
#define SCD_CALIBRATE_RATE_SEARCH_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bundle/manifest.h"

namespace scd {

// At most one of the two.
struct RateTarget {
  std::optional<double> kl = std::nullopt;               // nats: the fewest bytes at no more than this
  std::optional<double> bytes_per_token = std::nullopt;  // the least distortion at no more than this

  bool given() const { return kl || bytes_per_token; }
};

// Distortions that are tried.
inline constexpr double kLeastDistortion = 1e-5;
inline constexpr double kMostDistortion = 1e3;

// Measures a distortion: its bytes and its KL. More distortion, fewer bytes, and but for noise more KL.
using MeasureRate = std::function<absl::StatusOr<RatePoint>(double distortion)>;

// Bisects the logarithm of the distortion between points that meet the target and such that do not, few
// measurements in all. `known`: points that were measured before, ascending, at least one. A point whose
// bytes are within 2 % below the target (KL: 3 %) is close enough. FAILED_PRECONDITION saying how close it
// came where the target cannot be met.
absl::StatusOr<RatePoint> FindRatePoint(const RateTarget& target, const std::vector<RatePoint>& known,
                                        const MeasureRate& measure);

}  // namespace scd

#endif  // SCD_CALIBRATE_RATE_SEARCH_H_
