// The cuda backend that this binary's shim is.
#ifndef SCD_TESTS_KERNELS_CUDA_OPTIONS_H_
#define SCD_TESTS_KERNELS_CUDA_OPTIONS_H_

#include "kernels/backend_factory.h"

namespace scd::testing {

// Loaded as a plug-in from beside this program. Little scratch memory, so that ops work in pieces.
BackendOptions CudaShimOptions(MathMode math);

}  // namespace scd::testing

#endif  // SCD_TESTS_KERNELS_CUDA_OPTIONS_H_
