// Products with weights of 8 and 4 bits: few rows as in decoding, many as in prefill.
#include "bench/kernels/weights.h"

namespace scd {

void RegisterQuantisedProducts(Rig& rig) {
  RegisterWeights(rig, WeightFormat::kInt8, "MatMul/int8/", {1, 4, 16, 64, 512});
  RegisterWeights(rig, WeightFormat::kInt4, "MatMul/int4/", {1, 4, 16, 64, 512});
}

}  // namespace scd
