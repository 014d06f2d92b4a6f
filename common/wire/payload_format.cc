#include "common/wire/payload_format.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/io/finite.h"
#include "common/wire/entropy_coder.h"
#include "kernels/status_macros.h"

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
  const std::int64_t granule = GroupTokens(codec, kind);
  const std::int64_t header = (kind == CodeKind::kK ? rank : NumGroups(rank)) * kQuantGroupHeaderBytes;
  for (std::int64_t begin = 0; begin < num_tokens; begin += granule) {
    const auto offset = static_cast<std::size_t>(PayloadBytes(codec, kind, begin, rank));
    if (!AllFiniteAs(DType::kF16, payload.substr(offset, static_cast<std::size_t>(header)))) return false;
  }
  return true;
}

absl::Status CheckEntropyPayload(std::int64_t num_tokens, std::int64_t rank, absl::string_view payload) {
  SCD_RETURN_IF_ERROR(EntropyGranules(payload, num_tokens).status());
  if (payload.size() > static_cast<std::uint64_t>(LargestEntropyPayload(num_tokens, rank))) {
    return absl::InvalidArgumentError(absl::StrCat("payload: has ", payload.size(), " bytes, more than ",
                                                   num_tokens, " tokens at rank ", rank, " can take"));
  }
  return absl::OkStatus();
}

}  // namespace

DType StagingDType(Codec codec) {
  return codec == Codec::kBF16 ? DType::kBF16 : DType::kF32;
}

std::int64_t GroupTokens(Codec codec, CodeKind kind) {
  return IsQuantized(codec) && kind == CodeKind::kK ? kQuantGroup : 1;
}

std::int64_t GranuleTokens(Codec codec, CodeKind kind) {
  if (codec == Codec::kEntropy) return kEntropyGranule;
  return kind == CodeKind::kKV ? kFusedGranule : GroupTokens(codec, kind);
}

std::int64_t EndOfCode(Codec codec, CodeKind kind, std::int64_t begin, std::int64_t end) {
  const std::int64_t granule = GranuleTokens(codec, kind);
  const std::int64_t into = begin % granule;
  return into == 0 ? end : std::min(end, begin + granule - into);
}

std::int64_t PayloadBytes(Codec codec, CodeKind kind, std::int64_t num_tokens, std::int64_t rank) {
  const std::int64_t row = (rank * CodecBits(codec) + 7) / 8;
  if (!IsQuantized(codec)) return num_tokens * row;
  const std::int64_t granule = GroupTokens(codec, kind);
  const std::int64_t headers =
      kind == CodeKind::kK ? (num_tokens + granule - 1) / granule * rank : num_tokens * NumGroups(rank);
  return num_tokens * row + headers * kQuantGroupHeaderBytes;
}

absl::Status CheckPayload(Codec codec, CodeKind kind, std::int64_t num_tokens, std::int64_t rank,
                          absl::string_view payload) {
  if (codec == Codec::kEntropy) return CheckEntropyPayload(num_tokens, rank, payload);
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

PayloadCuts::PayloadCuts(const LayerCode& code) : codec_(code.codec), kind_(code.kind), rank_(code.rank) {
  if (HasFixedSize(codec_)) return;
  auto granules = EntropyGranules(code.payload, code.num_tokens);
  if (granules.ok()) granules_ = *std::move(granules);
}

std::size_t PayloadCuts::BytesBefore(std::int64_t tokens) const {
  if (HasFixedSize(codec_)) return static_cast<std::size_t>(PayloadBytes(codec_, kind_, tokens, rank_));
  return granules_[static_cast<std::size_t>((tokens + kEntropyGranule - 1) / kEntropyGranule)];
}

}  // namespace scd
