// Random numbers that are the same with every standard library: SplitMix64 (Steele, Lea, Flood, 2014).
#ifndef SCD_CLIENT_BENCH_RANDOM_STREAM_H_
#define SCD_CLIENT_BENCH_RANDOM_STREAM_H_

#include <cstdint>

namespace scd {

// The next of a stream of well mixed 64-bit numbers; any state may begin one.
inline std::uint64_t SplitMix64(std::uint64_t* state) {
  std::uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// The begin of a stream that has nothing to do with those of other numbers.
inline std::uint64_t StreamOf(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  std::uint64_t state = seed;
  state = SplitMix64(&state) ^ a;
  state = SplitMix64(&state) ^ b;
  return SplitMix64(&state);
}

}  // namespace scd

#endif  // SCD_CLIENT_BENCH_RANDOM_STREAM_H_
