// The prompts of a load, the same in every run with the same options and seed.
//
// Made-up prompts are random token ids. No two requests of a run have the same (so nothing is served from a
// cache), unless a shared prefix is asked for; that prefix differs from level to level.
#ifndef SCD_CLIENT_BENCH_WORKLOAD_H_
#define SCD_CLIENT_BENCH_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/bench/load_options.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

class Workload {
 public:
  // INVALID_ARGUMENT naming the file and line, or the option. `vocab_size` is the consumer's.
  static absl::StatusOr<Workload> Create(const WorkloadOptions& options, std::uint32_t vocab_size,
                                         std::uint64_t seed);

  // Thread-safe.
  v1::Prompt PromptOf(std::uint64_t level, std::uint64_t index) const;

  // "made-up prompts of 512 tokens".
  std::string Describe() const;

 private:
  Workload(const WorkloadOptions& options, std::uint64_t seed) : options_(options), seed_(seed) {}
  void AddRandomIds(std::uint64_t stream, std::uint32_t count, v1::Prompt* prompt) const;

  WorkloadOptions options_;
  std::uint64_t seed_;
  std::uint32_t first_id_ = 0;
  std::uint32_t num_ids_ = 0;
  std::vector<v1::Prompt> from_file_;
};

}  // namespace scd

#endif  // SCD_CLIENT_BENCH_WORKLOAD_H_
