// What was seen of one request. Times are seconds of the steady clock since the begin of its level.
#ifndef SCD_CLIENT_BENCH_REQUEST_RECORD_H_
#define SCD_CLIENT_BENCH_REQUEST_RECORD_H_

#include <vector>

#include "absl/status/status.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

struct RequestRecord {
  double intended_s = 0.0;            // when it had to start; every latency counts from here
  double sent_s = 0.0;                // when it did
  double end_s = 0.0;                 // when its stream ended
  std::vector<double> token_times_s;  // arrival of each token
  absl::Status status;
  v1::TransferReport report;  // of requests that ended well
};

}  // namespace scd

#endif  // SCD_CLIENT_BENCH_REQUEST_RECORD_H_
