// A pair of tiny models for tests: tests/data/tiny-llama as the producer, and the same with its weights
// disturbed as the consumer.
#ifndef SCD_TESTS_CALIBRATE_TINY_PAIR_H_
#define SCD_TESTS_CALIBRATE_TINY_PAIR_H_

#include <cstdint>
#include <string>
#include <vector>

namespace scd::testing {

// tests/data/tiny-llama itself.
std::string TinyLlama();

// Writes a model to `folder`: every weight times 1 + strength x noise, but for those whose names begin with
// one of `kept`.
void WriteTinyModel(const std::string& folder, float strength, const std::vector<std::string>& kept = {});

// JSON Lines of `count` prefixes of `tokens` random ids each.
std::string RandomIdsJsonl(std::int64_t count, std::int64_t tokens, std::uint32_t seed);

}  // namespace scd::testing

#endif  // SCD_TESTS_CALIBRATE_TINY_PAIR_H_
