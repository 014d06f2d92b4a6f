// Each prompt four times: natively, through fresh codes, and through stored ones (once more to fill the
// store).
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/command_result.h"
#include "client/commands.h"
#include "client/report.h"
#include "client/requests.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kShownPromptBytes = 60;

struct Answer {
  std::string text;
  v1::TransferReport report;
};

absl::StatusOr<Answer> Ask(Connection& connection, const v1::GenerateRequest& request,
                           absl::Duration deadline) {
  Answer answer;
  SCD_RETURN_IF_ERROR(connection.Generate(request, deadline, [&answer](const v1::GenerateResponse& response) {
    if (response.has_done()) {
      answer.text += response.done().text();
      answer.report = response.done().report();
    } else {
      answer.text += response.token().text();
    }
    return absl::OkStatus();
  }));
  return answer;
}

struct Comparison {
  Answer native;
  Answer codes;                             // codes made for this request
  std::optional<v1::TransferReport> ready;  // codes that the producer had; absent where it keeps none
};

absl::StatusOr<Comparison> Compare(Connection& connection, v1::GenerateRequest request,
                                   absl::Duration deadline) {
  Comparison out;
  v1::Transfer& transfer = *request.mutable_transfer();
  transfer.set_no_prefix_cache(true);  // each way from its beginning
  transfer.set_mode("local");
  transfer.set_policy(v1::POLICY_OFF);
  SCD_ASSIGN_OR_RETURN(out.native, Ask(connection, request, deadline));
  transfer.set_mode("auto");
  transfer.set_policy(v1::POLICY_REQUIRE);
  transfer.set_no_code_store(true);
  SCD_ASSIGN_OR_RETURN(out.codes, Ask(connection, request, deadline));
  if (out.codes.report.transferred_tokens() == 0) return out;
  transfer.set_no_code_store(false);
  request.set_max_tokens(1);
  for (int attempt = 0; attempt < 2 && !out.ready; ++attempt) {
    SCD_ASSIGN_OR_RETURN(const Answer answer, Ask(connection, request, deadline));
    if (answer.report.stored_tokens() > 0) out.ready = answer.report;
  }
  return out;
}

std::string Shortened(std::string_view prompt) {
  const auto escaped = [](std::string_view text) {
    return absl::Utf8SafeCEscape(absl::string_view(text.data(), text.size()));
  };
  if (prompt.size() <= 2 * kShownPromptBytes) return absl::StrCat("\"", escaped(prompt), "\"");
  // Cut where characters begin.
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  std::size_t head = kShownPromptBytes, tail = prompt.size() - kShownPromptBytes;
  while (head > 0 && continues(prompt[head])) --head;
  while (tail < prompt.size() && continues(prompt[tail])) ++tail;
  return absl::StrCat("\"", escaped(prompt.substr(0, head)), " ... ", escaped(prompt.substr(tail)), "\"");
}

std::string Describe(const Comparison& c) {
  const v1::TransferReport& report = c.codes.report;
  const auto quoted = [](const std::string& text) {
    return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\"");
  };
  std::string out =
      absl::StrCat("  own prefill   ", quoted(c.native.text), "\n  through codes ", quoted(c.codes.text),
                   c.native.text == c.codes.text ? "  (the same)\n" : "\n");
  if (report.transferred_tokens() == 0) {
    absl::StrAppend(&out, "  no codes were used: ", report.reason(), "\n");
  }
  absl::StrAppendFormat(&out, "  prompt        %u tokens: %u transferred, %u computed, %u cached; mode %s\n",
                        report.prompt_tokens(), report.transferred_tokens(), report.computed_tokens(),
                        report.cached_tokens(), report.mode());
  absl::StrAppend(&out, "  on the wire   ", ReadableBytes(report.received_bytes()), " against ",
                  ReadableBytes(report.raw_kv_bytes()), " of raw bf16 KV");
  if (report.received_bytes() > 0) {
    absl::StrAppendFormat(
        &out, " (%.1f times less)",
        static_cast<double>(report.raw_kv_bytes()) / static_cast<double>(report.received_bytes()));
  }
  absl::StrAppendFormat(&out, "\n  first token   %.1f ms natively, %.1f ms with codes made for it",
                        c.native.report.first_token_ms(), report.first_token_ms());
  if (c.ready) absl::StrAppendFormat(&out, ", %.1f ms with codes ready", c.ready->first_token_ms());
  return out + "\n";
}

nlohmann::json ComparisonJson(const std::string& prompt, const Comparison& c) {
  return {
      {"prompt", prompt},
      {"native", {{"text", c.native.text}, {"report", ReportJson(c.native.report)}}},
      {"codes", {{"text", c.codes.text}, {"report", ReportJson(c.codes.report)}}},
      {"codes_ready", c.ready ? nlohmann::json{{"report", ReportJson(*c.ready)}} : nlohmann::json(nullptr)}};
}

}  // namespace

ExitCode RunCompare(const Options& options, const Terminal& terminal) {
  const auto prompts = ReadComparePrompts(options);
  if (!prompts.ok()) return Fail(terminal, ExitCode::kRequestFailed, std::string(prompts.status().message()));
  ExitCode code = ExitCode::kOk;
  const auto connection = Connect(options, options.address, terminal, &code);
  if (connection == nullptr) return code;
  v1::GenerateRequest request = MakeCompareRequest(options);
  nlohmann::json documents = nlohmann::json::array();
  for (std::size_t i = 0; i < prompts->size(); ++i) {
    const std::string& prompt = (*prompts)[i];
    request.mutable_prompt()->set_text(prompt);
    const auto comparison = Compare(*connection, request, options.deadline);
    if (!comparison.ok()) return RequestFailed(terminal, comparison.status());
    if (options.json) {
      documents.push_back(ComparisonJson(prompt, *comparison));
      continue;
    }
    terminal.out << "prompt " << i + 1 << " of " << prompts->size() << ": " << Shortened(prompt) << "\n"
                 << Describe(*comparison) << std::flush;
  }
  if (options.json) terminal.out << JsonText(documents);
  return ExitCode::kOk;
}

}  // namespace scd
