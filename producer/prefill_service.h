// scd.v1.Producer over the prefill engine and the code store.
#ifndef SCD_PRODUCER_PREFILL_SERVICE_H_
#define SCD_PRODUCER_PREFILL_SERVICE_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/time/time.h"
#include "common/server/log.h"
#include "common/server/metrics.h"
#include "common/server/request_tracker.h"
#include "common/store/code_store.h"
#include "common/trace/trace_folder.h"
#include "producer/prefill_call.h"
#include "producer/prefill_engine.h"
#include "producer/request_check.h"
#include "producer/stall_watch.h"
#include "producer/store_threads.h"
#include "scd/v1/producer.grpc.pb.h"

namespace scd {

// What the service lends from its owner; all of it outlives the service.
struct PrefillServiceParts {
  const BundleSet& bundles;
  PrefillEngine& engine;
  CodeStore* store = nullptr;  // null: no store
  std::int64_t block_tokens = 32;
  std::int64_t max_prompt_tokens = 0;
  std::int64_t queue_frames = 64;
  std::int64_t max_streams = 256;  // beyond: RESOURCE_EXHAUSTED
  absl::Duration stall_timeout = absl::Seconds(30);
  v1::ProducerInfo info;  // what does not change
  Digest model_digest;
  Digest state_seed = {};  // of page keys (code_keys.h)
  std::int64_t vocab_size = 0;
  Log& log;
  TransferMetrics& metrics;
  RequestMetrics& ended_calls;
  RequestTracker& requests;
  TraceFolder* traces = nullptr;  // null: requests are not traced
};

class PrefillService final : public v1::Producer::CallbackService {
 public:
  explicit PrefillService(const PrefillServiceParts& parts);

  grpc::ServerWriteReactor<v1::PrefillResponse>* Prefill(grpc::CallbackServerContext* context,
                                                         const v1::PrefillRequest* request) override;
  grpc::ServerUnaryReactor* Info(grpc::CallbackServerContext* context, const v1::ProducerInfoRequest* request,
                                 v1::ProducerInfo* response) override;

  // Ends every stream with UNAVAILABLE.
  void CancelRequests() { shutdown_.request_stop(); }

 private:
  void StartCall(const std::shared_ptr<PrefillCall>& call, const v1::PrefillRequest& request);
  // Answers from `codes`, those that the store knows, where at most so many tokens at the end have none; else
  // prefills.
  static void Answer(PrefillCall& call, PrefillInput input, StoredCodes codes,
                     std::int64_t max_uncoded_tokens);

  const PrefillServiceParts parts_;
  const ServedModel served_;
  StallWatch stall_watch_;
  const PrefillCallEnvironment environment_;
  std::stop_source shutdown_;
  StoreThreads store_threads_;  // last: what they run uses everything above
};

}  // namespace scd

#endif  // SCD_PRODUCER_PREFILL_SERVICE_H_
