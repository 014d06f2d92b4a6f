#include "client/bench/prompt_file.h"

#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace scd {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{1} << 30;

std::optional<v1::Prompt> FromIds(const json& ids) {
  if (!ids.is_array() || ids.empty()) return std::nullopt;
  v1::Prompt prompt;
  for (const json& id : ids) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max()) {
      return std::nullopt;
    }
    prompt.mutable_tokens()->add_ids(id.get<std::int32_t>());
  }
  return prompt;
}

std::optional<std::string> TextOf(const json& record, const char* name) {
  const auto found = record.find(name);
  if (found == record.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<v1::Prompt> FromRecord(const json& record) {
  if (!record.is_object()) return std::nullopt;
  for (const char* name : {"prompt_ids", "prefix_ids"}) {
    if (const auto found = record.find(name); found != record.end()) return FromIds(*found);
  }
  std::optional<std::string> text = TextOf(record, "prompt");
  if (!text) text = TextOf(record, "text");
  if (!text) {
    const auto context = TextOf(record, "context"), question = TextOf(record, "question");
    if (context && question)
      text = absl::StrCat("Context: ", *context, "\nQuestion: ", *question, "\nAnswer:");
  }
  if (!text || text->empty()) return std::nullopt;
  v1::Prompt prompt;
  prompt.set_text(*std::move(text));
  return prompt;
}

}  // namespace

absl::StatusOr<std::vector<v1::Prompt>> ReadPromptFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be opened"));
  std::vector<v1::Prompt> prompts;
  std::string line;
  std::uintmax_t bytes = 0;
  for (std::int64_t number = 1; std::getline(in, line); ++number) {
    bytes += line.size();
    if (bytes > kMaxFileBytes) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is longer than ", kMaxFileBytes, " bytes"));
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const json record = json::parse(line, nullptr, /*allow_exceptions=*/false);
    std::optional<v1::Prompt> prompt = FromRecord(record);
    if (!prompt) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " line ", number,
          ": expected an object with prompt, text, prompt_ids, prefix_ids, or context and question"));
    }
    prompts.push_back(*std::move(prompt));
  }
  if (in.bad()) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  if (prompts.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": has no prompt"));
  return prompts;
}

}  // namespace scd
