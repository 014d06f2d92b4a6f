#include "producer/prefill_service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/cache/block_keys.h"
#include "common/store/code_keys.h"
#include "common/wire/frame_codec.h"
#include "grpcpp/server_context.h"

namespace scd {
namespace {

// As many as a server's connections could serve, and more only make each other wait.
constexpr std::size_t kStoreThreads = 4;
// Each may hold the next up for as long as the store's timeout: who comes when more wait asks nobody.
constexpr std::size_t kMaxWaitingQuestions = 16;

void AddTier(const CodeStoreStats& stats, v1::ProducerInfo* info) {
  const auto count = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  if (stats.tier == "memory") {
    info->set_code_store_bytes(count(stats.size_bytes));
    info->set_code_store_capacity_bytes(count(stats.capacity_bytes));
  }
  v1::CodeStoreTier& tier = *info->add_code_store_tiers();
  tier.set_tier(stats.tier);
  tier.set_place(stats.place);
  tier.set_blocks(count(stats.num_blocks));
  tier.set_bytes(count(stats.size_bytes));
  tier.set_capacity_bytes(count(stats.capacity_bytes));
  tier.set_hits(count(stats.hits));
  tier.set_misses(count(stats.misses));
  tier.set_evicted(count(stats.evicted));
  tier.set_dropped_expired(count(stats.dropped_expired));
  tier.set_dropped_corrupt(count(stats.dropped_corrupt));
  tier.set_read_failures(count(stats.read_failures));
  tier.set_write_failures(count(stats.write_failures));
  tier.set_queue_drops(count(stats.queue_drops));
}

}  // namespace

PrefillService::PrefillService(const PrefillServiceParts& parts)
    : parts_(parts),
      served_{parts.model_digest, parts.vocab_size, parts.max_prompt_tokens, &parts.bundles},
      stall_watch_(std::min(parts.stall_timeout / 4, absl::Seconds(1))),
      environment_{.engine = parts.engine,
                   .log = parts.log,
                   .metrics = parts.metrics,
                   .ended_calls = parts.ended_calls,
                   .stall_watch = stall_watch_,
                   .traces = parts.traces,
                   .queue_frames = parts.queue_frames,
                   .stall_timeout = parts.stall_timeout},
      store_threads_(parts.store != nullptr && parts.store->asks_others() ? kStoreThreads : 0,
                     kMaxWaitingQuestions) {}

grpc::ServerWriteReactor<v1::PrefillResponse>* PrefillService::Prefill(grpc::CallbackServerContext* context,
                                                                       const v1::PrefillRequest* request) {
  // gRPC keeps the call alive from here to OnDone.
  const std::shared_ptr<PrefillCall> call = PrefillCall::Create(context, environment_, request->request_id());
  StartCall(call, *request);
  return call.get();
}

void PrefillService::StartCall(const std::shared_ptr<PrefillCall>& call, const v1::PrefillRequest& request) {
  absl::StatusOr<RequestTracker::Lease> lease = parts_.requests.Admit();
  if (!lease.ok()) return call->Refuse(lease.status());
  // Each stream may hold a queue of frames, whatever its reader does.
  if (parts_.requests.num_in_flight() > parts_.max_streams) {
    return call->Refuse(absl::ResourceExhaustedError(
        absl::StrCat("the producer has ", parts_.max_streams, " streams already, its most")));
  }
  absl::StatusOr<PrefillInput> checked = CheckPrefillRequest(request, served_);
  if (!checked.ok()) return call->Refuse(checked.status());
  PrefillInput& input = *checked;

  v1::PrefillHeader header;
  header.set_model_digest(std::string(served_.digest.bytes()));
  header.set_bundle_digest(request.bundle_digest());
  *header.mutable_plan() = PlanToProto(input.plan);
  header.set_first_token(request.first_token());
  header.set_end_token(request.end_token());
  call->Accept(std::move(header), *std::move(lease), shutdown_.get_token());

  if (request.no_store()) return call->StartPrefill(std::move(input), {});
  input.page_keys = BlockKeys(parts_.state_seed, input.token_ids, parts_.block_tokens);
  if (parts_.store == nullptr) return call->StartPrefill(std::move(input), {});
  input.code_keys =
      CodeKeys(input.bundle->digest(), input.plan, input.first_token, input.page_keys, parts_.block_tokens);
  StoredCodes codes = CodesOf(input.plan, input.first_token, parts_.store->FindAtOnce(input.code_keys, 0),
                              parts_.block_tokens);
  const std::int64_t max_uncoded_tokens = request.max_uncoded_tokens();
  if (parts_.store->asks_others() && codes.blocks.size() < input.code_keys.size()) {
    // A copy: where too many questions wait, this request asks nobody.
    const auto ask = [this, call, input, max_uncoded_tokens] {
      StoredCodes found;
      {
        const TraceSpan span(call->trace().get(), TraceTrack::kRequest, "ask the code store");
        found = FindCodes(*parts_.store, input.plan, input.first_token, input.code_keys, parts_.block_tokens);
      }
      Answer(*call, input, std::move(found), max_uncoded_tokens);
    };
    if (store_threads_.Run(ask)) return;
  }
  Answer(*call, std::move(input), std::move(codes), max_uncoded_tokens);
}

void PrefillService::Answer(PrefillCall& call, PrefillInput input, StoredCodes codes,
                            std::int64_t max_uncoded_tokens) {
  const auto end = static_cast<std::int64_t>(input.token_ids.size());
  if (!codes.blocks.empty() && end - codes.first_token - codes.num_tokens() <= max_uncoded_tokens) {
    return call.StartStored(input.plan, std::move(codes));
  }
  call.StartPrefill(std::move(input), std::move(codes));
}

grpc::ServerUnaryReactor* PrefillService::Info(grpc::CallbackServerContext* context,
                                               const v1::ProducerInfoRequest* /*request*/,
                                               v1::ProducerInfo* response) {
  *response = parts_.info;
  if (parts_.store != nullptr) {
    for (const CodeStoreStats& tier : parts_.store->stats()) AddTier(tier, response);
  }
  const PrefillEngine::Stats stats = parts_.engine.stats();
  response->set_prefilled_tokens(static_cast<std::uint64_t>(stats.prefilled_tokens));
  response->set_skipped_tokens(static_cast<std::uint64_t>(stats.skipped_tokens));
  response->set_prefix_hits(static_cast<std::uint64_t>(stats.prefix_hits));
  response->set_kv_pages_total(static_cast<std::uint64_t>(stats.pages_total));
  response->set_kv_pages_used(static_cast<std::uint64_t>(stats.pages_used));
  response->set_kv_pages_cached(static_cast<std::uint64_t>(stats.pages_cached));
  response->set_kv_pages_evicted(static_cast<std::uint64_t>(stats.pages_evicted));
  response->set_requests_in_flight(static_cast<std::uint32_t>(parts_.requests.num_in_flight()));
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace scd
