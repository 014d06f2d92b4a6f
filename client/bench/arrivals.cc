#include "client/bench/arrivals.h"

#include <cmath>

#include "client/bench/random_stream.h"

namespace scd {

double PoissonArrivals::NextSeconds() {
  // Uniform in (0, 1]: its logarithm is finite.
  const double uniform = static_cast<double>((SplitMix64(&state_) >> 11) + 1) * 0x1p-53;
  seconds_ -= std::log(uniform) / per_second_;
  return seconds_;
}

}  // namespace scd
