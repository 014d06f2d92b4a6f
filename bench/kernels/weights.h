// Products with the packed weights of the shipped model, for every format.
#ifndef SCD_BENCH_KERNELS_WEIGHTS_H_
#define SCD_BENCH_KERNELS_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/kernels/rig.h"

namespace scd {

// A benchmark for each matrix of a layer and the head, by rows of x. Bytes are those of the packed weight, x
// and the result; more copies of a weight than the caches hold take turns, as the layers of a model do.
void RegisterWeights(Rig& rig, WeightFormat format, const std::string& name, const std::vector<int>& rows);

}  // namespace scd

#endif  // SCD_BENCH_KERNELS_WEIGHTS_H_
