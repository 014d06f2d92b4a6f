#include "client/report.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace scd {
namespace {

using nlohmann::json;

std::string Ms(double ms) {
  return absl::StrFormat("%.1f ms", ms);
}

std::string PolicyName(v1::Policy policy) {
  switch (policy) {
    case v1::POLICY_REQUIRE:
      return "require";
    case v1::POLICY_PREFER:
      return "prefer";
    case v1::POLICY_OFF:
      return "off";
    default:
      return "unspecified";
  }
}

std::string Hex(const std::string& digest) {
  return digest.empty() ? "none" : absl::BytesToHexString(digest);
}

std::string DescribeModel(const v1::ModelInfo& model) {
  return absl::StrFormat(
      "  model      %s\n"
      "  shape      %s, %u layers, hidden %u, %u KV heads of %u, %u tokens in the vocabulary, %u positions\n"
      "  digests    model %s, tokenizer %s\n",
      model.description(), model.architecture(), model.num_layers(), model.hidden_size(),
      model.num_kv_heads(), model.head_dim(), model.vocab_size(), model.max_positions(), Hex(model.digest()),
      Hex(model.tokenizer_digest()));
}

std::string DescribeBundle(const v1::BundleInfo& bundle) {
  return absl::StrFormat("  bundle     %s at %s\n", Hex(bundle.digest()), bundle.path());
}

std::string DescribeTier(const v1::CodeStoreTier& tier) {
  std::string out = absl::StrCat("  codes      ", tier.tier() == "disk" ? "on " : "in ", tier.tier(),
                                 tier.place().empty() ? "" : " at ", tier.place());
  if (tier.capacity_bytes() > 0) {
    absl::StrAppend(&out, ": ", tier.blocks(), " blocks, ", ReadableBytes(tier.bytes()), " of ",
                    ReadableBytes(tier.capacity_bytes()));
  }
  absl::StrAppend(&out, "; ", tier.hits(), " blocks found, ", tier.misses(), " not");
  const std::uint64_t trouble =
      tier.dropped_corrupt() + tier.read_failures() + tier.write_failures() + tier.queue_drops();
  if (trouble > 0) {
    absl::StrAppend(&out, "; ", tier.dropped_corrupt(), " damaged, ", tier.read_failures(), " not read, ",
                    tier.write_failures() + tier.queue_drops(), " not written");
  }
  return out + "\n";
}

json TierJson(const v1::CodeStoreTier& tier) {
  return {{"tier", tier.tier()},
          {"place", tier.place()},
          {"blocks", tier.blocks()},
          {"bytes", tier.bytes()},
          {"capacity_bytes", tier.capacity_bytes()},
          {"hits", tier.hits()},
          {"misses", tier.misses()},
          {"evicted", tier.evicted()},
          {"dropped_expired", tier.dropped_expired()},
          {"dropped_corrupt", tier.dropped_corrupt()},
          {"read_failures", tier.read_failures()},
          {"write_failures", tier.write_failures()},
          {"queue_drops", tier.queue_drops()}};
}

json ModelJson(const v1::ModelInfo& model) {
  return {{"description", model.description()},
          {"digest", absl::BytesToHexString(model.digest())},
          {"tokenizer_digest", absl::BytesToHexString(model.tokenizer_digest())},
          {"architecture", model.architecture()},
          {"num_layers", model.num_layers()},
          {"hidden_size", model.hidden_size()},
          {"num_kv_heads", model.num_kv_heads()},
          {"head_dim", model.head_dim()},
          {"vocab_size", model.vocab_size()},
          {"max_positions", model.max_positions()}};
}

json BundleJson(const v1::BundleInfo& bundle) {
  return {{"digest", absl::BytesToHexString(bundle.digest())},
          {"producer_model_digest", absl::BytesToHexString(bundle.producer_model_digest())},
          {"consumer_model_digest", absl::BytesToHexString(bundle.consumer_model_digest())},
          {"path", bundle.path()}};
}

}  // namespace

std::string ReadableBytes(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 10'000) return absl::StrCat(bytes, " bytes");
  if (bytes < (std::uint64_t{1} << 20)) return absl::StrFormat("%.1f KiB", value / 1024);
  if (bytes < (std::uint64_t{1} << 30)) return absl::StrFormat("%.2f MiB", value / (1 << 20));
  return absl::StrFormat("%.2f GiB", value / (1 << 30));
}

std::string FinishReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP_TOKEN:
      return "stop_token";
    case v1::FINISH_REASON_STOP_TEXT:
      return "stop_text";
    case v1::FINISH_REASON_MAX_TOKENS:
      return "max_tokens";
    default:
      return "unspecified";
  }
}

std::string DescribeReport(const v1::TransferReport& report, const std::string& asked) {
  std::string out = absl::StrCat("mode      ", report.mode());
  if (!report.reason().empty()) {
    absl::StrAppend(&out, asked.empty() || asked == report.mode() ? "" : absl::StrCat(" instead of ", asked),
                    ", because ", report.reason(),
                    report.detail().empty() ? "" : absl::StrCat(" (", report.detail(), ")"));
  }
  absl::StrAppendFormat(
      &out,
      "\nprompt    %u tokens: %u transferred (%u of them stored), %u computed, %u cached; the producer "
      "prefilled %u\n",
      report.prompt_tokens(), report.transferred_tokens(), report.stored_tokens(), report.computed_tokens(),
      report.cached_tokens(), report.producer_prefilled_tokens());
  absl::StrAppend(&out, "received  ", ReadableBytes(report.received_bytes()), " (codes ",
                  ReadableBytes(report.code_bytes()), "); the prompt's raw bf16 KV is ",
                  ReadableBytes(report.raw_kv_bytes()));
  if (report.received_bytes() > 0) {
    absl::StrAppendFormat(
        &out, ", %.1f times as much",
        static_cast<double>(report.raw_kv_bytes()) / static_cast<double>(report.received_bytes()));
  }
  absl::StrAppend(&out, "\ntime      first token after ", Ms(report.first_token_ms()), ", all after ",
                  Ms(report.total_ms()), "\nstages    queue ", Ms(report.queue_ms()));
  if (report.transferred_tokens() > 0) {
    absl::StrAppend(&out, ", producer queue ", Ms(report.producer_queue_ms()), ", prefill ",
                    Ms(report.producer_prefill_ms()), " (encoding ", Ms(report.producer_encode_ms()),
                    "), first frame after ", Ms(report.first_frame_ms()), ", last after ",
                    Ms(report.transfer_ms()), ", rebuild ", Ms(report.rebuild_ms()));
  }
  absl::StrAppend(&out, ", native ", Ms(report.native_ms()), "\n");
  return out;
}

std::string DescribeDone(const v1::GenerateDone& done) {
  return absl::StrFormat("answer    %u tokens, %s each, ended by %s\n", done.num_tokens(),
                         Ms(done.time_per_output_token_ms()), FinishReasonName(done.finish_reason()));
}

std::string DescribeConsumer(const v1::ConsumerInfo& info) {
  return absl::StrCat("consumer ", info.version(), " (backend ", info.backend(), ")\n",
                      DescribeModel(info.model()), DescribeBundle(info.bundle()), "  plan       ",
                      info.plan(), "\n  default    mode ", info.default_mode(), ", policy ",
                      PolicyName(info.default_policy()), ", producer ", info.producer_address(),
                      "\n  now        ", info.kv_pages_used(), " of ", info.kv_pages_total(),
                      " KV pages used, ", info.kv_pages_cached(), " known, ", info.requests_in_flight(),
                      " requests in flight\n");
}

std::string DescribeProducer(const v1::ProducerInfo& info) {
  std::string out = absl::StrCat("producer ", info.version(), " (backend ", info.backend(), ")\n",
                                 DescribeModel(info.model()));
  for (const v1::BundleInfo& bundle : info.bundles()) absl::StrAppend(&out, DescribeBundle(bundle));
  absl::StrAppend(&out, "  now        ", ReadableBytes(info.code_store_bytes()), " of ",
                  ReadableBytes(info.code_store_capacity_bytes()), " of code store used, ",
                  info.kv_pages_used(), " of ", info.kv_pages_total(), " KV pages used, ",
                  info.kv_pages_cached(), " kept, ", info.requests_in_flight(),
                  " requests in flight\n  so far     ", info.prefilled_tokens(), " tokens prefilled, ",
                  info.skipped_tokens(), " known before (", info.prefix_hits(), " requests)\n");
  for (const v1::CodeStoreTier& tier : info.code_store_tiers()) absl::StrAppend(&out, DescribeTier(tier));
  return out;
}

json ReportJson(const v1::TransferReport& report) {
  return {{"mode", report.mode()},
          {"reason", report.reason()},
          {"detail", report.detail()},
          {"prompt_tokens", report.prompt_tokens()},
          {"transferred_tokens", report.transferred_tokens()},
          {"computed_tokens", report.computed_tokens()},
          {"cached_tokens", report.cached_tokens()},
          {"stored_tokens", report.stored_tokens()},
          {"producer_prefilled_tokens", report.producer_prefilled_tokens()},
          {"received_bytes", report.received_bytes()},
          {"code_bytes", report.code_bytes()},
          {"raw_kv_bytes", report.raw_kv_bytes()},
          {"queue_ms", report.queue_ms()},
          {"producer_queue_ms", report.producer_queue_ms()},
          {"producer_prefill_ms", report.producer_prefill_ms()},
          {"producer_encode_ms", report.producer_encode_ms()},
          {"first_frame_ms", report.first_frame_ms()},
          {"transfer_ms", report.transfer_ms()},
          {"rebuild_ms", report.rebuild_ms()},
          {"native_ms", report.native_ms()},
          {"first_token_ms", report.first_token_ms()},
          {"total_ms", report.total_ms()}};
}

json TokenJson(const v1::TokenEvent& token) {
  json out = {{"id", token.id()}, {"text", token.text()}, {"logprob", token.logprob()}};
  for (const v1::Logprob& top : token.top()) {
    out["top"].push_back({{"id", top.id()}, {"text", top.text()}, {"logprob", top.logprob()}});
  }
  return out;
}

json ConsumerJson(const v1::ConsumerInfo& info) {
  return {{"version", info.version()},
          {"model", ModelJson(info.model())},
          {"bundle", BundleJson(info.bundle())},
          {"backend", info.backend()},
          {"producer_address", info.producer_address()},
          {"default_mode", info.default_mode()},
          {"default_policy", PolicyName(info.default_policy())},
          {"plan", info.plan()},
          {"kv_pages_used", info.kv_pages_used()},
          {"kv_pages_cached", info.kv_pages_cached()},
          {"kv_pages_total", info.kv_pages_total()},
          {"requests_in_flight", info.requests_in_flight()}};
}

json ProducerJson(const v1::ProducerInfo& info) {
  json bundles = json::array();
  for (const v1::BundleInfo& bundle : info.bundles()) bundles.push_back(BundleJson(bundle));
  json tiers = json::array();
  for (const v1::CodeStoreTier& tier : info.code_store_tiers()) tiers.push_back(TierJson(tier));
  return {{"version", info.version()},
          {"model", ModelJson(info.model())},
          {"bundles", bundles},
          {"backend", info.backend()},
          {"code_store_bytes", info.code_store_bytes()},
          {"code_store_capacity_bytes", info.code_store_capacity_bytes()},
          {"code_store_tiers", tiers},
          {"prefilled_tokens", info.prefilled_tokens()},
          {"skipped_tokens", info.skipped_tokens()},
          {"prefix_hits", info.prefix_hits()},
          {"kv_pages_used", info.kv_pages_used()},
          {"kv_pages_cached", info.kv_pages_cached()},
          {"kv_pages_total", info.kv_pages_total()},
          {"kv_pages_evicted", info.kv_pages_evicted()},
          {"requests_in_flight", info.requests_in_flight()}};
}

std::string JsonText(const json& document) {
  return document.dump(2, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace) + "\n";
}

}  // namespace scd
