// Holds OpenMP regions that the calling thread opens to one thread, and gives the old number back.
#ifndef SCD_KERNELS_CPU_SINGLE_OPENMP_THREAD_H_
#define SCD_KERNELS_CPU_SINGLE_OPENMP_THREAD_H_

#include <omp.h>

namespace scd::cpu {

class SingleOpenMpThread {
 public:
  SingleOpenMpThread() : previous_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleOpenMpThread() { omp_set_num_threads(previous_); }
  SingleOpenMpThread(const SingleOpenMpThread&) = delete;
  SingleOpenMpThread& operator=(const SingleOpenMpThread&) = delete;

 private:
  const int previous_;
};

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_SINGLE_OPENMP_THREAD_H_
