#include "client/requests.h"

#include <array>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/config/codec.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kMaxPromptBytes = std::size_t{16} << 20;

absl::StatusOr<std::string> ReadAll(std::istream& in, const std::string& name) {
  std::string text;
  std::array<char, 65536> buffer;
  while (in.read(buffer.data(), buffer.size()) || in.gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMaxPromptBytes) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": is longer than ", kMaxPromptBytes, " bytes"));
    }
  }
  if (in.bad()) return absl::InvalidArgumentError(absl::StrCat(name, ": cannot be read"));
  return text;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be opened"));
  return ReadAll(in, path);
}

absl::Status SetChat(const std::vector<std::string>& messages, v1::Chat* chat) {
  for (const std::string& message : messages) {
    const std::size_t equals = message.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(absl::StrCat("--chat: expected role=content, got \"", message, "\""));
    }
    v1::ChatMessage* added = chat->add_messages();
    added->set_role(message.substr(0, equals));
    added->set_content(message.substr(equals + 1));
  }
  return absl::OkStatus();
}

absl::Status SetPrompt(const PromptOptions& options, std::istream& in, v1::Prompt* prompt) {
  prompt->set_allow_special_tokens(options.allow_special_tokens);
  if (options.text) {
    prompt->set_text(*options.text);
  } else if (options.file) {
    SCD_ASSIGN_OR_RETURN(std::string text,
                         *options.file == "-" ? ReadAll(in, "standard input") : ReadFile(*options.file));
    prompt->set_text(std::move(text));
  } else if (!options.ids.empty()) {
    prompt->mutable_tokens()->mutable_ids()->Add(options.ids.begin(), options.ids.end());
  } else {
    return SetChat(options.chat, prompt->mutable_chat());
  }
  return absl::OkStatus();
}

v1::Policy PolicyOf(const std::string& name) {
  if (name == "require") return v1::POLICY_REQUIRE;
  if (name == "prefer") return v1::POLICY_PREFER;
  if (name == "off") return v1::POLICY_OFF;
  return v1::POLICY_UNSPECIFIED;
}

void SetTransfer(const TransferOptions& options, v1::Transfer* transfer) {
  transfer->set_mode(options.mode);
  transfer->set_policy(PolicyOf(options.policy));
  transfer->set_timeout_ms(options.timeout_ms);
  transfer->set_no_code_store(options.fresh);
  transfer->set_no_prefix_cache(options.no_prefix_cache);
  v1::PlanOverride plan;
  if (options.rank_k) plan.set_rank_k(*options.rank_k);
  if (options.rank_v) plan.set_rank_v(*options.rank_v);
  if (options.rank_h) plan.set_rank_h(*options.rank_h);
  if (options.native_head) plan.set_native_head(*options.native_head);
  if (options.native_tail) plan.set_native_tail(*options.native_tail);
  if (const auto codec = CodecByName(options.codec)) plan.set_codec(static_cast<v1::Codec>(*codec));
  if (options.distortion) plan.set_distortion(*options.distortion);
  if (options.recompute_layers) {
    plan.mutable_recompute_layers()->set_first(options.recompute_layers->first);
    plan.mutable_recompute_layers()->set_last(options.recompute_layers->second);
  }
  if (options.patch_layers) {
    auto* layers = plan.mutable_patch_layers()->mutable_layers();
    layers->Add(options.patch_layers->begin(), options.patch_layers->end());
  }
  if (plan.ByteSizeLong() > 0 || options.patch_layers || options.recompute_layers)
    *transfer->mutable_plan() = plan;
}

void SetSampling(const SamplingOptions& options, v1::Sampling* sampling) {
  sampling->set_temperature(options.temperature);
  sampling->set_top_k(options.top_k);
  if (options.top_p) sampling->set_top_p(*options.top_p);
  sampling->set_min_p(options.min_p);
  if (options.repetition_penalty) sampling->set_repetition_penalty(*options.repetition_penalty);
  sampling->set_seed(options.seed);
}

}  // namespace

absl::StatusOr<v1::GenerateRequest> MakeGenerateRequest(const Options& options, std::istream& in) {
  v1::GenerateRequest request;
  request.set_request_id(options.request_id);
  SCD_RETURN_IF_ERROR(SetPrompt(options.prompt, in, request.mutable_prompt()));
  request.set_max_tokens(options.max_tokens);
  SetSampling(options.sampling, request.mutable_sampling());
  for (const std::string& text : options.stop) request.add_stop(text);
  for (const std::int32_t id : options.stop_token_ids) request.add_stop_token_ids(id);
  request.set_ignore_eos(options.ignore_eos);
  request.set_top_logprobs(options.top_logprobs);
  SetTransfer(options.transfer, request.mutable_transfer());
  return request;
}

absl::StatusOr<v1::ScoreRequest> MakeScoreRequest(const Options& options, std::istream& in) {
  v1::ScoreRequest request;
  request.set_request_id(options.request_id);
  SCD_RETURN_IF_ERROR(SetPrompt(options.prompt, in, request.mutable_prompt()));
  if (options.continuation) {
    request.set_text(*options.continuation);
  } else {
    request.mutable_tokens()->mutable_ids()->Add(options.continuation_ids.begin(),
                                                 options.continuation_ids.end());
  }
  request.set_compare_with_native(options.compare_with_native);
  SetTransfer(options.transfer, request.mutable_transfer());
  return request;
}

v1::GenerateRequest MakeCompareRequest(const Options& options) {
  v1::GenerateRequest request;
  request.set_request_id(options.request_id);
  request.mutable_prompt()->set_allow_special_tokens(options.prompt.allow_special_tokens);
  request.set_max_tokens(options.max_tokens);
  for (const std::string& text : options.stop) request.add_stop(text);
  SetTransfer(options.transfer, request.mutable_transfer());
  return request;
}

v1::GenerateRequest MakeLoadRequest(const Options& options) {
  v1::GenerateRequest request;
  request.set_request_id(options.request_id);
  request.set_max_tokens(options.max_tokens);
  request.set_ignore_eos(!options.load.stop_at_eos);
  SetTransfer(options.transfer, request.mutable_transfer());
  return request;
}

absl::StatusOr<std::vector<std::string>> ReadComparePrompts(const Options& options) {
  if (options.prompt.text) return std::vector<std::string>{*options.prompt.text};
  SCD_ASSIGN_OR_RETURN(const std::string text, ReadFile(*options.prompts_file));
  std::vector<std::string> prompts = SplitPrompts(text);
  if (prompts.empty())
    return absl::InvalidArgumentError(absl::StrCat(*options.prompts_file, ": has no prompt"));
  return prompts;
}

std::vector<std::string> SplitPrompts(std::string_view text) {
  std::vector<std::string> prompts;
  std::string prompt;
  const auto finish = [&] {
    if (!prompt.empty()) prompt.pop_back();  // the line break before the separator
    if (!prompt.empty()) prompts.push_back(std::move(prompt));
    prompt.clear();
  };
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (line == "---") {
      finish();
    } else {
      prompt += line;
      prompt += '\n';
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  finish();
  return prompts;
}

}  // namespace scd
