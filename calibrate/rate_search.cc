#include "calibrate/rate_search.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr double kStride = 4.0;       // of distortions beyond those that are known
constexpr int kMaxRefinements = 8;    // measurements between two points
constexpr double kNarrow = 1.02;      // points whose distortions are this close are not told apart
constexpr double kCloseBytes = 0.98;  // of the target
constexpr double kCloseKl = 0.97;

// Four digits, so that people can write the distortion.
double Rounded(double distortion) {
  const double unit = std::pow(10.0, std::floor(std::log10(distortion)) - 3);
  return std::round(distortion / unit) * unit;
}

// What is bounded, and which way the distortion has to go for less of it.
class Goal {
 public:
  explicit Goal(const RateTarget& target)
      : of_bytes_(target.bytes_per_token.has_value()),
        bound_(of_bytes_ ? *target.bytes_per_token : *target.kl) {}

  double Value(const RatePoint& point) const { return of_bytes_ ? point.bytes_per_token : point.kl; }
  bool Meets(const RatePoint& point) const { return Value(point) <= bound_; }
  bool IsClose(const RatePoint& met) const {
    return Value(met) >= bound_ * (of_bytes_ ? kCloseBytes : kCloseKl);
  }
  // Whether a point that meets the target is nearer to where it is missed than another.
  bool IsTighter(const RatePoint& point, const RatePoint& other) const {
    return of_bytes_ ? point.distortion < other.distortion : point.distortion > other.distortion;
  }
  // The next distortion further on the safe side of `from`, or on the other one; 0 where there is none.
  double Step(double from, bool safe) const {
    const bool up = safe == of_bytes_;
    const double next = Rounded(up ? from * kStride : from / kStride);
    return next > kMostDistortion || next < kLeastDistortion ? 0.0 : next;
  }
  // Between a point that meets the target and one that misses it, where the value should be just inside.
  double Between(const RatePoint& met, const RatePoint& missed) const {
    const double aim = bound_ * (1.0 + (of_bytes_ ? kCloseBytes : kCloseKl)) / 2.0;
    const double rise = Value(missed) - Value(met);
    const double share = rise > 0 ? std::clamp((aim - Value(met)) / rise, 0.1, 0.9) : 0.5;
    const double from = std::log(met.distortion), to = std::log(missed.distortion);
    return Rounded(std::exp(from + share * (to - from)));
  }
  std::string Refusal(const RatePoint& best) const {
    const std::string reached =
        absl::StrFormat("at distortion %g a token takes %.0f bytes and leaves KL %.5f", best.distortion,
                        best.bytes_per_token, best.kl);
    return of_bytes_
               ? absl::StrFormat("entropy.target_bytes: %g cannot be met; the closest: %s", bound_, reached)
               : absl::StrFormat("entropy.target_kl: %g cannot be met; the closest: %s", bound_, reached);
  }

 private:
  const bool of_bytes_;
  const double bound_;
};

}  // namespace

absl::StatusOr<RatePoint> FindRatePoint(const RateTarget& target, const std::vector<RatePoint>& known,
                                        const MeasureRate& measure) {
  const Goal goal(target);
  std::optional<RatePoint> met, missed;
  const auto note = [&](const RatePoint& point) {
    if (goal.Meets(point)) {
      if (!met || goal.IsTighter(point, *met)) met = point;
    } else if (!missed || goal.Value(point) < goal.Value(*missed)) {
      missed = point;
    }
  };
  if (known.empty()) return absl::InvalidArgumentError("a search needs a point to begin with");
  for (const RatePoint& point : known) note(point);
  // Points on the wrong side of one that meets the target say nothing about where it is missed.
  if (met && missed && goal.IsTighter(*met, *missed)) missed.reset();

  while (!met) {
    const double next = goal.Step(missed->distortion, /*safe=*/true);
    if (next == 0.0) return absl::FailedPreconditionError(goal.Refusal(*missed));
    SCD_ASSIGN_OR_RETURN(const RatePoint point, measure(next));
    if (!goal.Meets(point) && goal.Value(point) > 0.99 * goal.Value(*missed)) {
      // It levels off: further on there is nothing to gain.
      note(point);
      return absl::FailedPreconditionError(goal.Refusal(*missed));
    }
    note(point);
  }
  while (!missed && !goal.IsClose(*met)) {
    const double next = goal.Step(met->distortion, /*safe=*/false);
    if (next == 0.0) return *met;
    SCD_ASSIGN_OR_RETURN(const RatePoint point, measure(next));
    note(point);
  }
  for (int i = 0; missed && i < kMaxRefinements && !goal.IsClose(*met); ++i) {
    const double ratio = missed->distortion / met->distortion;
    if (std::max(ratio, 1.0 / ratio) < kNarrow) break;
    SCD_ASSIGN_OR_RETURN(const RatePoint point, measure(goal.Between(*met, *missed)));
    if (goal.Meets(point)) {
      met = point;
    } else {
      missed = point;
    }
  }
  return *met;
}

}  // namespace scd
