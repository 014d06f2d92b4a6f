// Independent jobs side by side on threads of their own: fits of many layers.
#ifndef SCD_CALIBRATE_PARALLEL_H_
#define SCD_CALIBRATE_PARALLEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibrate/host_math.h"

namespace scd {

// How many workers `num_threads` threads (0: the cores this process may use) make for so many jobs.
int NumWorkers(int num_threads, std::int64_t num_jobs);

// One HostMath for each worker; together they use `num_threads` (0: the cores this process may use).
class WorkerPool {
 public:
  // At most max_workers workers; where there are fewer than threads, each has several. All share `device`.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Create(int num_threads, std::int64_t max_workers,
                                                            const MathDevice& device = {});

  int num_workers() const { return static_cast<int>(maths_.size()); }

  // Runs job(math, i) for i in [0, count), each once, a worker at a time taking the next. After an error no
  // new job starts; the error of the lowest i is returned.
  absl::Status Run(std::int64_t count, absl::FunctionRef<absl::Status(HostMath&, std::int64_t)> job);

 private:
  explicit WorkerPool(std::vector<std::unique_ptr<HostMath>> maths);

  const std::vector<std::unique_ptr<HostMath>> maths_;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_PARALLEL_H_
