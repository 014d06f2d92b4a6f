#include "kernels/cpu/sgemm.h"

#include <dnnl.h>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/single_openmp_thread.h"

namespace scd::cpu {

absl::Status Sgemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, SgemmOperand a,
                   SgemmOperand b, float beta, float* c, std::int64_t c_stride) {
  const SingleOpenMpThread single_thread;
  const dnnl_status_t status = dnnl_sgemm(a.transpose ? 'T' : 'N', b.transpose ? 'T' : 'N', m, n, k, alpha,
                                          a.data, a.stride, b.data, b.stride, beta, c, c_stride);
  if (status == dnnl_success) return absl::OkStatus();
  if (status == dnnl_out_of_memory) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a product of ", m, " x ", n, " x ", k));
  }
  return absl::InternalError(absl::StrCat("dnnl_sgemm of ", m, " x ", n, " x ", k, " failed with ", status));
}

}  // namespace scd::cpu
