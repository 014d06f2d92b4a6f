// Exact percentiles of what was measured: every value is kept.
#ifndef SCD_CLIENT_BENCH_DISTRIBUTION_H_
#define SCD_CLIENT_BENCH_DISTRIBUTION_H_

#include <cstddef>
#include <vector>

namespace scd {

class Distribution {
 public:
  void Add(double value);
  std::size_t count() const { return values_.size(); }
  // All 0 where there are no values.
  double mean() const;
  // percent in [0, 100]; between two values, in proportion (as numpy's default).
  double Percentile(double percent) const;

 private:
  mutable std::vector<double> values_;
  mutable bool sorted_ = true;
};

}  // namespace scd

#endif  // SCD_CLIENT_BENCH_DISTRIBUTION_H_
