#include "eval/pair_session.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"
#include "scd/v1/consumer.pb.h"
#include "scd/v1/producer.pb.h"

namespace scd {
namespace {

// The producer may be out of reach from here: only its description is lost.
constexpr absl::Duration kProducerTimeout = absl::Seconds(2);

void SetPrompt(const EvalPrompt& prompt, v1::Prompt* out) {
  if (prompt.ids.empty()) {
    out->set_text(prompt.text);
  } else {
    out->mutable_tokens()->mutable_ids()->Add(prompt.ids.begin(), prompt.ids.end());
  }
}

v1::Codec CodecOf(Codec codec) {
  return static_cast<v1::Codec>(codec);  // one numbering (common/config/codec.h)
}

// Everything that the row's plan is made of, so that no default of the consumer takes part where the plan is
// known.
void SetPlan(const ResolvedRow& row, v1::PlanOverride* out) {
  const TransferSpec& spec = row.row.spec;
  out->set_native_head(static_cast<std::uint32_t>(spec.native_head));
  out->set_native_tail(static_cast<std::uint32_t>(spec.native_tail));
  if (spec.rank_k) out->set_rank_k(static_cast<std::uint32_t>(*spec.rank_k));
  if (spec.rank_v) out->set_rank_v(static_cast<std::uint32_t>(*spec.rank_v));
  if (spec.rank_h) out->set_rank_h(static_cast<std::uint32_t>(*spec.rank_h));
  if (spec.patch_layers) {
    auto* layers = out->mutable_patch_layers()->mutable_layers();
    for (const std::int64_t layer : *spec.patch_layers) layers->Add(static_cast<std::uint32_t>(layer));
  }
  if (spec.recompute_layers) {
    out->mutable_recompute_layers()->set_first(static_cast<std::uint32_t>(spec.recompute_layers->first));
    out->mutable_recompute_layers()->set_last(static_cast<std::uint32_t>(spec.recompute_layers->last));
  }
  if (spec.codec) out->set_codec(CodecOf(*spec.codec));
  if (spec.distortion) out->set_distortion(*spec.distortion);
}

void SetTransfer(const ResolvedRow& row, CodeUse use, absl::Duration timeout, v1::Transfer* out) {
  out->set_mode(row.row.spec.mode);
  out->set_no_prefix_cache(true);  // nothing may be left over from the row or the repetition before
  if (row.row.spec.is_local()) {
    out->set_policy(v1::POLICY_OFF);
    return;
  }
  out->set_policy(v1::POLICY_REQUIRE);
  out->set_no_code_store(use == CodeUse::kFresh);
  out->set_timeout_ms(static_cast<std::uint32_t>(absl::ToInt64Milliseconds(timeout)));
  SetPlan(row, out->mutable_plan());
}

TransferFigures FiguresOf(const v1::TransferReport& report) {
  TransferFigures figures;
  figures.mode = report.mode();
  figures.reason = report.reason();
  figures.detail = report.detail();
  figures.prompt_tokens = report.prompt_tokens();
  figures.transferred_tokens = report.transferred_tokens();
  figures.computed_tokens = report.computed_tokens();
  figures.cached_tokens = report.cached_tokens();
  figures.stored_tokens = report.stored_tokens();
  figures.received_bytes = static_cast<std::int64_t>(report.received_bytes());
  figures.code_bytes = static_cast<std::int64_t>(report.code_bytes());
  figures.raw_kv_bytes = static_cast<std::int64_t>(report.raw_kv_bytes());
  figures.stages = {.queue = report.queue_ms(),
                    .producer_queue = report.producer_queue_ms(),
                    .producer_prefill = report.producer_prefill_ms(),
                    .producer_encode = report.producer_encode_ms(),
                    .first_frame = report.first_frame_ms(),
                    .transfer = report.transfer_ms(),
                    .rebuild = report.rebuild_ms(),
                    .native = report.native_ms()};
  figures.first_token_ms = report.first_token_ms();
  return figures;
}

absl::Status InRow(const ResolvedRow& row, const absl::Status& status) {
  if (status.ok() || absl::IsCancelled(status)) return status;
  const std::string group = row.row.group.empty() ? "" : absl::StrCat(" (", row.row.group, ")");
  return absl::Status(status.code(),
                      absl::StrCat("row \"", row.row.name, "\"", group, ": ", status.message()));
}

}  // namespace

PairSession::PairSession(std::unique_ptr<Connection> connection, const PairSessionOptions& options)
    : connection_(std::move(connection)), options_(options) {}

absl::StatusOr<std::unique_ptr<PairSession>> PairSession::Open(const std::string& consumer_address,
                                                               const PairSessionOptions& options,
                                                               const std::stop_token& stop) {
  SCD_ASSIGN_OR_RETURN(auto connection, Connection::Open(consumer_address, options.connect_timeout, stop));
  auto session = absl::WrapUnique(new PairSession(std::move(connection), options));
  SCD_RETURN_IF_ERROR(session->Describe(stop));
  return session;
}

absl::Status PairSession::Describe(const std::stop_token& stop) {
  SCD_ASSIGN_OR_RETURN(const v1::ConsumerInfo info, connection_->ConsumerInfo(options_.request_timeout));
  const v1::ModelInfo& model = info.model();
  description_.consumer = {model.description(), absl::BytesToHexString(model.digest())};
  description_.producer.digest = absl::BytesToHexString(info.bundle().producer_model_digest());
  description_.bundle_path = info.bundle().path();
  description_.bundle_digest = absl::BytesToHexString(info.bundle().digest());
  description_.plan = info.plan();
  description_.backend = info.backend();
  description_.num_layers = model.num_layers();
  description_.d_kv = std::int64_t{model.num_kv_heads()} * model.head_dim();
  description_.vocab_size = model.vocab_size();
  if (auto producer = Connection::Open(info.producer_address(), kProducerTimeout, stop); producer.ok()) {
    if (const auto told = (*producer)->ProducerInfo(kProducerTimeout); told.ok()) {
      description_.producer = {told->model().description(), absl::BytesToHexString(told->model().digest())};
    }
  }
  if (description_.bundle_path.empty()) return absl::OkStatus();
  // The folder may be another machine's, or meanwhile hold another bundle.
  if (auto bundle = Bundle::Open(description_.bundle_path);
      bundle.ok() && (*bundle)->digest().ToHex() == description_.bundle_digest) {
    bundle_ = *std::move(bundle);
  }
  return absl::OkStatus();
}

absl::StatusOr<ResolvedRow> PairSession::Resolve(const ModeRow& row) const {
  ResolvedRow resolved{.row = row, .plan = std::nullopt, .plan_text = ""};
  TransferSpec& spec = resolved.row.spec;
  if (spec.is_local()) {
    resolved.plan_text = "native prefill";
    return resolved;
  }
  const PlanRequest request = PlanRequestOf(spec);
  spec.codec = request.codec;
  if (bundle_ == nullptr) {
    resolved.plan_text = absl::StrCat("the consumer's own: ", description_.plan);
    return resolved;
  }
  absl::StatusOr<LayerPlan> plan = bundle_->ResolvePlan(request);
  SCD_RETURN_IF_ERROR(InRow(resolved, plan.status()));
  const BundleManifest& manifest = bundle_->manifest();
  spec.codec = plan->codec;
  if (plan->codec == Codec::kEntropy) {
    spec.distortion = manifest.rate_points[static_cast<std::size_t>(plan->rate_point)].distortion;
  }
  if (spec.mode == "scd" || spec.mode == "reuse") {
    if (!spec.rank_k) spec.rank_k = manifest.default_rank_k;
    if (!spec.rank_v) spec.rank_v = manifest.default_rank_v;
    if (spec.mode == "scd") {
      if (!spec.patch_layers) spec.patch_layers = plan->patch_layers();
      if (!spec.rank_h && !spec.patch_layers->empty()) spec.rank_h = manifest.default_rank_h;
    }
  }
  if (spec.mode == "selective" && !spec.recompute_layers) spec.recompute_layers = plan->recomputed();
  resolved.plan_text = plan->ToString();
  resolved.plan = *std::move(plan);
  return resolved;
}

absl::StatusOr<ScoredText> PairSession::Score(const ResolvedRow& row, const EvalPrompt& prompt,
                                              const std::vector<std::int32_t>& continuation) {
  v1::ScoreRequest request;
  SetPrompt(prompt, request.mutable_prompt());
  if (!continuation.empty()) {
    request.mutable_tokens()->mutable_ids()->Add(continuation.begin(), continuation.end());
  }
  request.set_compare_with_native(true);
  SetTransfer(row, CodeUse::kFresh, options_.transfer_timeout, request.mutable_transfer());
  const auto response = connection_->Score(request, options_.request_timeout);
  SCD_RETURN_IF_ERROR(InRow(row, response.status()));
  ScoredText scored;
  for (const v1::PositionScore& position : response->positions()) {
    scored.positions.push_back({.logprob = position.logprob(),
                                .kl = position.kl(),
                                .tv = position.tv(),
                                .native_logprob = position.native_logprob()});
  }
  scored.transfer = FiguresOf(response->report());
  const LayerPlan* plan = row.plan ? &*row.plan : nullptr;
  SCD_RETURN_IF_ERROR(InRow(row, CheckTransfer(row.row.spec, plan, CodeUse::kFresh, scored.transfer)));
  SCD_RETURN_IF_ERROR(InRow(row, CheckPositions(scored, static_cast<std::int64_t>(continuation.size()) + 1)));
  return scored;
}

absl::StatusOr<GeneratedText> PairSession::Generate(const ResolvedRow& row, const EvalPrompt& prompt,
                                                    const AnswerOptions& options, CodeUse use) {
  v1::GenerateRequest request;
  SetPrompt(prompt, request.mutable_prompt());
  request.set_max_tokens(static_cast<std::uint32_t>(options.max_tokens));
  for (const std::string& stop : options.stop) request.add_stop(stop);
  SetTransfer(row, use, options_.transfer_timeout, request.mutable_transfer());
  GeneratedText generated;
  const absl::Status status = connection_->Generate(
      request, options_.request_timeout, [&generated](const v1::GenerateResponse& response) {
        if (response.has_done()) {
          generated.text += response.done().text();
          generated.transfer = FiguresOf(response.done().report());
        } else {
          generated.text += response.token().text();
          generated.token_ids.push_back(response.token().id());
        }
        return absl::OkStatus();
      });
  SCD_RETURN_IF_ERROR(InRow(row, status));
  const LayerPlan* plan = row.plan ? &*row.plan : nullptr;
  SCD_RETURN_IF_ERROR(InRow(row, CheckTransfer(row.row.spec, plan, use, generated.transfer)));
  return generated;
}

}  // namespace scd
