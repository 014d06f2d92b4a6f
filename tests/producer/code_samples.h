// A digest and a plan for tests of what is kept of codes.
#ifndef SCD_TESTS_PRODUCER_CODE_SAMPLES_H_
#define SCD_TESTS_PRODUCER_CODE_SAMPLES_H_

#include <string>

#include "common/config/layer_plan.h"
#include "common/io/digest.h"

namespace scd::testing {

inline Digest Name(const std::string& text) {
  return DigestBuilder("test").AddString(text).Finish();
}

inline LayerPlan Plan() {
  LayerPlan plan;
  plan.layers = {{.treatment = LayerTreatment::kReuse, .rank_k = 4, .rank_v = 6},
                 {.treatment = LayerTreatment::kPatch, .rank_h = 8}};
  return plan;
}

}  // namespace scd::testing

#endif  // SCD_TESTS_PRODUCER_CODE_SAMPLES_H_
