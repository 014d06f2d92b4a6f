#include "calibrate/corpus.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/io/json.h"
#include "common/io/mapped_file.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kMaxLineBytes = std::size_t{4} << 20;
constexpr std::size_t kTextBytesPerToken =
    8;  // more than nearly any text needs: a prefix is then cut, not short

absl::Status At(const std::string& origin, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(origin, ": ", status.message()));
}

absl::Status Bad(const std::string& origin, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(origin, ": ", what));
}

absl::StatusOr<std::vector<std::int32_t>> ReadIds(const JsonObject& object) {
  const nlohmann::json& list = *object.Find("ids");
  if (!list.is_array()) return object.Error("ids", "expected a list of token ids");
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const nlohmann::json& id : list) {
    // What fits int32 is checked here, what the vocabulary has later.
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > INT32_MAX) {
      return object.Error(absl::StrCat("ids[", ids.size(), "]"), "expected a token id");
    }
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

std::string FileName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// Where the first piece of text of at most max_bytes ends: after a line end if it has one, never inside a
// character.
std::size_t PieceEnd(absl::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text.size();
  const std::size_t line_end = text.rfind('\n', max_bytes - 1);
  if (line_end != absl::string_view::npos) return line_end + 1;
  std::size_t end = max_bytes;
  while (end > 1 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

}  // namespace

Corpus::Corpus(CorpusRules rules, std::int64_t max_prefixes)
    : rules_(std::move(rules)), max_prefixes_(max_prefixes) {}

absl::Status Corpus::AddIds(const std::string& origin, std::vector<std::int32_t> ids) {
  if (full()) return absl::OkStatus();
  if (static_cast<std::int64_t>(ids.size()) > rules_.max_tokens)
    ids.resize(static_cast<std::size_t>(rules_.max_tokens));
  bool translatable = true;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (std::binary_search(rules_.untranslatable_ids.begin(), rules_.untranslatable_ids.end(), ids[i])) {
      translatable = false;
    } else if (ids[i] < 0 || ids[i] >= rules_.vocab_size) {
      return Bad(origin, absl::StrCat("ids[", i, "]: ", ids[i], " is outside the models' vocabulary, [0, ",
                                      rules_.vocab_size, ")"));
    }
  }
  if (static_cast<std::int64_t>(ids.size()) < rules_.min_tokens) {
    ++num_too_short_;
  } else if (!translatable) {
    ++num_untranslatable_;
  } else {
    prefixes_.push_back(std::move(ids));
  }
  return absl::OkStatus();
}

absl::Status Corpus::AddTextPrefix(const CorpusSource& source, const std::string& origin,
                                   absl::string_view text) {
  auto ids =
      rules_.tokenizer->Encode({text.data(), text.size()},
                               {.allow_special_tokens = source.special_tokens, .add_default_tokens = true});
  if (!ids.ok()) return At(origin, ids.status());
  return AddIds(origin, *std::move(ids));
}

absl::Status Corpus::AddLine(const CorpusSource& source, const std::string& origin, absl::string_view line) {
  if (line.size() > kMaxLineBytes) return Bad(origin, absl::StrCat("longer than ", kMaxLineBytes, " bytes"));
  SCD_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(line, origin));
  SCD_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::Create(json, origin));
  if (object.Has("ids") == object.Has("text")) return Bad(origin, "expected one of \"text\" and \"ids\"");
  if (object.Has("ids")) {
    SCD_ASSIGN_OR_RETURN(std::vector<std::int32_t> ids, ReadIds(object));
    return AddIds(origin, std::move(ids));
  }
  SCD_ASSIGN_OR_RETURN(const std::string text, object.String("text"));
  return AddTextPrefix(source, origin, text);
}

absl::Status Corpus::AddJsonl(const CorpusSource& source) {
  SCD_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(source.path));
  absl::string_view rest = file->text();
  const std::size_t before = prefixes_.size();
  std::int64_t taken = 0;
  for (std::int64_t line_number = 1; !rest.empty() && !full(); ++line_number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const absl::string_view line = absl::StripAsciiWhitespace(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    if (source.limit > 0 && taken == source.limit) break;
    ++taken;
    SCD_RETURN_IF_ERROR(AddLine(source, absl::StrCat(source.path, ":", line_number), line));
  }
  Describe(static_cast<std::int64_t>(prefixes_.size() - before), absl::StrCat("of ", FileName(source.path)));
  return absl::OkStatus();
}

absl::Status Corpus::AddText(const CorpusSource& source) {
  SCD_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(source.path));
  const absl::string_view text = file->text();
  const std::size_t before = prefixes_.size();
  std::size_t begin = 0;
  while (begin < text.size() && !full()) {
    const std::size_t taken = prefixes_.size() - before;
    if (source.limit > 0 && taken >= static_cast<std::size_t>(source.limit)) break;
    const std::size_t size =
        PieceEnd(text.substr(begin), static_cast<std::size_t>(rules_.max_tokens) * kTextBytesPerToken);
    const std::string origin = absl::StrCat(source.path, ": text at byte ", begin);
    SCD_RETURN_IF_ERROR(AddTextPrefix(source, origin, text.substr(begin, size)));
    begin += size;
  }
  Describe(static_cast<std::int64_t>(prefixes_.size() - before), absl::StrCat("of ", FileName(source.path)));
  return absl::OkStatus();
}

void Corpus::Describe(std::int64_t num_prefixes, const std::string& what) {
  absl::StrAppend(&description_, description_.empty() ? "" : ", ", num_prefixes, " prefixes ", what);
}

Digest Corpus::digest() const {
  DigestBuilder builder("scd.calibrate.corpus.v1");
  builder.AddInt(static_cast<std::int64_t>(prefixes_.size()));
  for (const auto& ids : prefixes_) {
    builder.AddBytes({reinterpret_cast<const std::byte*>(ids.data()), ids.size() * sizeof(ids[0])});
  }
  return builder.Finish();
}

}  // namespace scd
