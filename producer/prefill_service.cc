#include "producer/prefill_service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/wire/frame_codec.h"
#include "grpcpp/server_context.h"

namespace scd {

PrefillService::PrefillService(const PrefillServiceParts& parts)
    : parts_(parts),
      served_{parts.model_digest, parts.vocab_size, parts.max_prompt_tokens, &parts.bundles},
      stall_watch_(std::min(parts.stall_timeout / 4, absl::Seconds(1))),
      environment_{.engine = parts.engine,
                   .log = parts.log,
                   .metrics = parts.metrics,
                   .ended_calls = parts.ended_calls,
                   .stall_watch = stall_watch_,
                   .queue_frames = parts.queue_frames,
                   .stall_timeout = parts.stall_timeout} {}

grpc::ServerWriteReactor<v1::PrefillResponse>* PrefillService::Prefill(grpc::CallbackServerContext* context,
                                                                       const v1::PrefillRequest* request) {
  // gRPC keeps the call alive from here to OnDone.
  const std::shared_ptr<PrefillCall> call = PrefillCall::Create(context, environment_, request->request_id());
  StartCall(*call, *request);
  return call.get();
}

void PrefillService::StartCall(PrefillCall& call, const v1::PrefillRequest& request) {
  absl::StatusOr<RequestTracker::Lease> lease = parts_.requests.Admit();
  if (!lease.ok()) return call.Refuse(lease.status());
  // Each stream may hold a queue of frames, whatever its reader does.
  if (parts_.requests.num_in_flight() > parts_.max_streams) {
    return call.Refuse(absl::ResourceExhaustedError(
        absl::StrCat("the producer has ", parts_.max_streams, " streams already, its most")));
  }
  absl::StatusOr<PrefillInput> input = CheckPrefillRequest(request, served_);
  if (!input.ok()) return call.Refuse(input.status());

  const auto num_tokens = static_cast<std::int64_t>(input->token_ids.size());
  v1::PrefillHeader header;
  header.set_model_digest(std::string(served_.digest.bytes()));
  header.set_bundle_digest(request.bundle_digest());
  *header.mutable_plan() = PlanToProto(input->plan);
  header.set_first_token(request.first_token());
  header.set_end_token(request.end_token());

  if (parts_.store != nullptr && !request.no_store()) {
    input->block_keys = BlockKeys(served_.digest, input->bundle->digest(), input->plan, input->first_token,
                                  input->token_ids, parts_.block_tokens);
    std::vector<std::shared_ptr<const CodeBlock>> blocks = parts_.store->FindPrefix(input->block_keys);
    const std::int64_t known = static_cast<std::int64_t>(blocks.size()) * parts_.block_tokens;
    const std::int64_t uncoded = num_tokens - input->first_token - known;
    if (known > 0 && uncoded <= static_cast<std::int64_t>(request.max_uncoded_tokens())) {
      header.set_end_token(static_cast<std::uint32_t>(num_tokens - uncoded));
      header.set_num_stored_tokens(static_cast<std::uint32_t>(known));
      return call.StartStored(
          StoredCodeReader(input->plan, input->first_token, std::move(blocks), kMaxFramePayloadBytes),
          std::move(header), *std::move(lease), shutdown_.get_token());
    }
  }
  call.StartPrefill(*std::move(input), std::move(header), *std::move(lease), shutdown_.get_token());
}

grpc::ServerUnaryReactor* PrefillService::Info(grpc::CallbackServerContext* context,
                                               const v1::ProducerInfoRequest* /*request*/,
                                               v1::ProducerInfo* response) {
  *response = parts_.info;
  if (parts_.store != nullptr) {
    response->set_code_store_bytes(static_cast<std::uint64_t>(parts_.store->size_bytes()));
    response->set_code_store_capacity_bytes(static_cast<std::uint64_t>(parts_.store->capacity_bytes()));
  }
  response->set_requests_in_flight(static_cast<std::uint32_t>(parts_.requests.num_in_flight()));
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace scd
