// What this machine can do at most, measured in the run that compares with it: a large f32 product of oneDNN
// on every thread, and reading more memory than any cache holds on every thread.
//
// With products in bf16 on hardware that has it, kernels can exceed the f32 peak.
#ifndef SCD_BENCH_KERNELS_MACHINE_PEAK_H_
#define SCD_BENCH_KERNELS_MACHINE_PEAK_H_

namespace scd {

struct MachinePeak {
  double read_bytes_per_s = 0.0;
  double product_flop_per_s = 0.0;
};

// Each is the best of several runs, less than a second in all. 0 threads: one for each core.
double ReadPeak(int threads);     // bytes/s
double ProductPeak(int threads);  // FLOP/s
MachinePeak MeasurePeak(int threads);

}  // namespace scd

#endif  // SCD_BENCH_KERNELS_MACHINE_PEAK_H_
