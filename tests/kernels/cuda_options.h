// The cuda backend that a test binary is about: the one that its shim is, or that of a GPU (tests/gpu).
#ifndef SCD_TESTS_KERNELS_CUDA_OPTIONS_H_
#define SCD_TESTS_KERNELS_CUDA_OPTIONS_H_

#include <cstdint>

#include "kernels/backend_factory.h"

namespace scd::testing {

// Loaded as a plug-in. Little scratch memory, so that ops work in pieces.
BackendOptions TestedCudaOptions(MathMode math);

// Order of threads and blocks from now on; 0: as they are numbered. A GPU has its own, whatever the seed.
void UseThreadOrder(std::uint64_t seed);

}  // namespace scd::testing

#endif  // SCD_TESTS_KERNELS_CUDA_OPTIONS_H_
