// When the requests of an open loop arrive: a Poisson process, so gaps are exponential and independent.
#ifndef SCD_CLIENT_BENCH_ARRIVALS_H_
#define SCD_CLIENT_BENCH_ARRIVALS_H_

#include <cstdint>

namespace scd {

// The same seed and rate give the same times on every machine.
class PoissonArrivals {
 public:
  // per_second > 0.
  PoissonArrivals(double per_second, std::uint64_t seed) : per_second_(per_second), state_(seed) {}

  // Seconds from the begin to the next arrival; not less than the one before.
  double NextSeconds();

 private:
  const double per_second_;
  std::uint64_t state_;
  double seconds_ = 0.0;
};

}  // namespace scd

#endif  // SCD_CLIENT_BENCH_ARRIVALS_H_
