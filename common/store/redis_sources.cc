#include "common/store/redis_sources.h"

#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using Kind = RedisReply::Kind;

constexpr std::int64_t kMaxBlockTokens = std::int64_t{1} << 24;

std::string KeyOf(const std::string& prefix, const Digest& bundle) {
  return absl::StrCat(prefix, "seeds:", bundle.ToHex());
}

// Exclusive where `open`.
std::string Score(absl::Time time, bool open) {
  if (time == absl::InfinitePast()) return "-inf";
  return absl::StrCat(open ? "(" : "", absl::ToUnixSeconds(time));
}

std::optional<CodeSource> ParseSource(const Digest& bundle, absl::string_view text) {
  constexpr std::size_t kHexDigits = 2 * Digest::kBytes;
  if (text.size() < kHexDigits + 2 || text[kHexDigits] != ':') return std::nullopt;
  const absl::StatusOr<Digest> seed = Digest::FromHex(text.substr(0, kHexDigits));
  CodeSource source;
  source.bundle = bundle;
  if (!seed.ok() || !absl::SimpleAtoi(text.substr(kHexDigits + 1), &source.block_tokens)) return std::nullopt;
  if (source.block_tokens < 1 || source.block_tokens > kMaxBlockTokens) return std::nullopt;
  source.seed = *seed;
  return source;
}

}  // namespace

absl::Status EnterSources(RedisConnection& connection, const std::string& key_prefix,
                          absl::Span<const CodeSource> sources, absl::Time now, absl::Time oldest,
                          absl::Time deadline) {
  const std::string score = Score(now, false);
  const std::string last = Score(oldest, true);
  const std::string beyond = absl::StrCat(-kMaxKeptSources - 1);
  for (const CodeSource& source : sources) {
    const std::string key = KeyOf(key_prefix, source.bundle);
    connection.Append({"ZADD", key, score, absl::StrCat(source.seed.ToHex(), ":", source.block_tokens)});
    connection.Append({"ZREMRANGEBYSCORE", key, "-inf", last});
    connection.Append({"ZREMRANGEBYRANK", key, "0", beyond});
  }
  SCD_RETURN_IF_ERROR(connection.Send(deadline));
  absl::Status refused;
  for (std::size_t i = 0; i < 3 * sources.size(); ++i) {
    SCD_ASSIGN_OR_RETURN(const RedisReply reply, connection.Read(deadline));
    if (!reply.is(Kind::kInteger)) refused.Update(absl::FailedPreconditionError(reply.ErrorText()));
  }
  return refused;
}

absl::StatusOr<std::vector<CodeSource>> ReadSources(RedisConnection& connection,
                                                    const std::string& key_prefix, const Digest& bundle,
                                                    absl::Time oldest, absl::Time deadline) {
  const std::string limit = absl::StrCat(kMaxCodeSources);
  SCD_ASSIGN_OR_RETURN(const RedisReply reply,
                       connection.Call({"ZREVRANGEBYSCORE", KeyOf(key_prefix, bundle), "+inf",
                                        Score(oldest, false), "LIMIT", "0", limit},
                                       deadline));
  if (!reply.is(Kind::kArray)) return absl::FailedPreconditionError(reply.ErrorText());
  std::vector<CodeSource> sources;
  for (const RedisReply& element : reply.elements) {
    if (!element.is(Kind::kString) || sources.size() == kMaxCodeSources) continue;
    if (const auto source = ParseSource(bundle, *element.text)) sources.push_back(*source);
  }
  return sources;
}

}  // namespace scd
