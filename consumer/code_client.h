// Client of scd.v1.Producer: asks for the codes of a prompt and hands them over one by one, each of them
// checked.
//
// Everything a producer sends is outside input. A stream that deviates in any way (checksum, range, order,
// count, header, trailer) ends with a reason; what was handed over before then must not be used.
#ifndef SCD_CONSUMER_CODE_CLIENT_H_
#define SCD_CONSUMER_CODE_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/bundle/manifest.h"
#include "common/config/layer_plan.h"
#include "common/io/digest.h"
#include "common/trace/request_trace.h"
#include "common/wire/layer_code.h"
#include "consumer/transfer_client.h"
#include "consumer/transfer_reason.h"

namespace scd {

struct CodeRequest {
  std::string request_id;
  std::shared_ptr<const std::vector<std::int32_t>> prompt;
  LayerPlan plan;
  TokenRange range;  // codes are wanted for these positions
  std::int64_t max_uncoded_tokens = 0;
  bool no_code_store = false;           // a fresh prefill of everything
  bool connect_anew = false;            // a producer that was away just now is tried once more, at once
  std::shared_ptr<RequestTrace> trace;  // null: not traced
  absl::Time deadline = absl::InfiniteFuture();
};

struct CodeStreamEnd {
  TransferOutcome outcome;
  TokenRange range;  // of the codes, where it succeeded
  // received_bytes, code bytes, stored_tokens, producer times, first_frame_ms and transfer_ms.
  TransferStats stats;
};

// Called from threads of gRPC, one call at a time; must not block.
class CodeSink {
 public:
  virtual ~CodeSink() = default;
  // Takes one of the stream's places (CodeClientOptions::queue_frames); give it back with
  // CodeStream::Release.
  virtual void OnCode(LayerCode code) = 0;
  // The last call, exactly once.
  virtual void OnEnd(const CodeStreamEnd& end) = 0;
};

class CodeStream {
 public:
  virtual ~CodeStream() = default;
  // Once. Does not block.
  virtual void Start() = 0;
  // One code was dealt with, so that another may be read. Any thread.
  virtual void Release() = 0;
  // Ends the call soon, with kCancelled. Any thread, any number of times, also before Start.
  virtual void Cancel() = 0;
};

struct CodeClientOptions {
  std::string address;
  absl::Duration connect_timeout = absl::Seconds(2);
  std::int64_t queue_frames = 8;
};

class CodeClient {
 public:
  // Connects lazily. INVALID_ARGUMENT for an empty address.
  static absl::StatusOr<std::unique_ptr<CodeClient>> Create(const CodeClientOptions& options,
                                                            const BundleManifest& manifest,
                                                            const Digest& bundle);
  // Streams must have ended.
  virtual ~CodeClient() = default;

  // A call that has yet to start; from then on it keeps itself alive until it has ended. `sink` is called
  // from other threads only. The producer's identity is checked first, once for each connection.
  virtual std::shared_ptr<CodeStream> Prepare(CodeRequest request, std::shared_ptr<CodeSink> sink) = 0;
};

}  // namespace scd

#endif  // SCD_CONSUMER_CODE_CLIENT_H_
