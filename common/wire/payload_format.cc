#include "common/wire/payload_format.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/io/finite.h"

namespace scd {
namespace {

std::int64_t NumGroups(std::int64_t rank) {
  return (rank + kQuantGroup - 1) / kQuantGroup;
}

bool AllFiniteAs(DType dtype, absl::string_view bytes) {
  return AllFinite(dtype, {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

// The scales and minima of a quantised payload of the right size.
bool HeadersAreFinite(Codec codec, CodeKind kind, std::int64_t num_tokens, std::int64_t rank,
                      absl::string_view payload) {
  const std::int64_t granule = GranuleTokens(codec, kind);
  const std::int64_t header = (kind == CodeKind::kK ? rank : NumGroups(rank)) * kQuantGroupHeaderBytes;
  for (std::int64_t begin = 0; begin < num_tokens; begin += granule) {
    const auto offset = static_cast<std::size_t>(PayloadBytes(codec, kind, begin, rank));
    if (!AllFiniteAs(DType::kF16, payload.substr(offset, static_cast<std::size_t>(header)))) return false;
  }
  return true;
}

}  // namespace

DType StagingDType(Codec codec) {
  return codec == Codec::kBF16 ? DType::kBF16 : DType::kF32;
}

std::int64_t GranuleTokens(Codec codec, CodeKind kind) {
  return IsQuantized(codec) && kind == CodeKind::kK ? kQuantGroup : 1;
}

std::int64_t PayloadBytes(Codec codec, CodeKind kind, std::int64_t num_tokens, std::int64_t rank) {
  const std::int64_t row = (rank * CodecBits(codec) + 7) / 8;
  if (!IsQuantized(codec)) return num_tokens * row;
  const std::int64_t granule = GranuleTokens(codec, kind);
  const std::int64_t headers =
      kind == CodeKind::kK ? (num_tokens + granule - 1) / granule * rank : num_tokens * NumGroups(rank);
  return num_tokens * row + headers * kQuantGroupHeaderBytes;
}

absl::Status CheckPayload(Codec codec, CodeKind kind, std::int64_t num_tokens, std::int64_t rank,
                          absl::string_view payload) {
  // No payload that exists comes near 2^58 numbers; beyond that sizes would overflow.
  const bool countable = num_tokens <= (std::int64_t{1} << 58) / rank;
  if (!countable ||
      payload.size() != static_cast<std::uint64_t>(PayloadBytes(codec, kind, num_tokens, rank))) {
    return absl::InvalidArgumentError(absl::StrCat("payload: has ", payload.size(), " bytes, not what ",
                                                   num_tokens, " tokens at rank ", rank, " in ",
                                                   std::string(CodecName(codec)), " take"));
  }
  const bool finite = IsQuantized(codec) ? HeadersAreFinite(codec, kind, num_tokens, rank, payload)
                                         : AllFiniteAs(StagingDType(codec), payload);
  if (!finite) return absl::DataLossError("payload: holds a number that is not finite");
  return absl::OkStatus();
}

}  // namespace scd
