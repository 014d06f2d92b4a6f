// What the GPU benchmark measures, and on what.
#ifndef SCD_BENCH_GPU_OPTIONS_H_
#define SCD_BENCH_GPU_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend_factory.h"

namespace scd {

struct GpuBenchmarkOptions {
  BackendOptions backend = {.device = "cuda"};
  std::string shape = "7b";  // "7b" or "tiny"

  // 0 or empty: the shape's own.
  std::int64_t layers = 0;
  std::vector<std::int64_t> tokens = {};   // lengths of prompts
  std::vector<std::int64_t> batches = {};  // sequences decoded together
  std::int64_t context = 0;                // tokens before the decoded ones
  std::int64_t steps = 0;                  // tokens decoded of each sequence
  std::int64_t chunk = 0;                  // tokens of a prompt that go through the model together
  std::int64_t product_rows = 0;           // of the product that others are compared with
  std::int64_t copy_mib = 0;               // of the copy on the device

  std::vector<double> links_gbit_per_s = {1, 10, 25, 100, 200};
  int repeats = 5;               // runs of each measurement, after one to warm up
  double turn_seconds = 4;       // no further run of a measurement that took as long
  double limit_seconds = 140;    // what does not fit is left out, and named
  std::string work_folder = {};  // for the made-up bundle; empty: a temporary one
  std::string json = {};         // file of the figures
};

}  // namespace scd

#endif  // SCD_BENCH_GPU_OPTIONS_H_
