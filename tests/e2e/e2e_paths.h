// Where the end-to-end tests find what their fixtures made, and the figures that they hold the real pair to.
#ifndef SCD_TESTS_E2E_E2E_PATHS_H_
#define SCD_TESTS_E2E_E2E_PATHS_H_

#include <optional>
#include <string>

namespace scd::testing {

// Made by the fixtures of CMakeLists.txt; absent where its fixture did not run (no base model, no reference
// data).
std::optional<std::string> SmallBundlePath();      // few prefixes, for tests of function
std::optional<std::string> ReferenceBundlePath();  // as TARGETS.md: 90 prefixes, ranks 96/128/576

// The repository's configuration of a program: configs/<name>.yaml.
std::string ShippedConfig(const std::string& name);

// A band of the reference measurement (TARGETS.md): what an independent implementation got, and how far from
// it a correct one may be.
struct QualityBand {
  double kl = 0;     // nats, mean over 129 positions of each window
  double kl_qa = 0;  // nats, at the answer's first token
  double ppl = 0;    // over 128 tokens of each window
};
inline constexpr double kKlTolerance = 0.15;  // relative
inline constexpr double kPplTolerance = 0.1;  // absolute
inline constexpr double kOraclePpl = 16.95;
inline constexpr QualityBand kReuseTail0 = {.kl = 0.0313, .kl_qa = 0.638, .ppl = 17.45};
inline constexpr QualityBand kReuseTail16 = {.kl = 0.0260, .kl_qa = 0.232, .ppl = 17.41};
inline constexpr QualityBand kPatchTail0 = {.kl = 0.0263, .kl_qa = 0.573, .ppl = 17.30};
// With the six most sensitive layers' own KV in place of patched ones: no aligner does better.
inline constexpr double kPatchKlCeiling = 0.0152;

}  // namespace scd::testing

#endif  // SCD_TESTS_E2E_E2E_PATHS_H_
