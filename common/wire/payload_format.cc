#include "common/wire/payload_format.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/io/finite.h"

namespace scd {

absl::StatusOr<DType> DTypeOfCodec(v1::Codec codec) {
  switch (codec) {
    case v1::CODEC_BF16:
      return DType::kBF16;
    case v1::CODEC_F32:
      return DType::kF32;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("codec: ", static_cast<int>(codec), " is none that this program knows"));
  }
}

v1::Codec CodecOfDType(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return v1::CODEC_BF16;
    case DType::kF32:
      return v1::CODEC_F32;
    default:
      return v1::CODEC_UNSPECIFIED;
  }
}

absl::Status CheckPayload(DType dtype, std::int64_t num_tokens, std::int64_t rank,
                          absl::string_view payload) {
  const auto elements = static_cast<std::uint64_t>(num_tokens) * static_cast<std::uint64_t>(rank);
  // In elements: their number is under 2^62, so that neither side overflows.
  if (payload.size() % DTypeBytes(dtype) != 0 || payload.size() / DTypeBytes(dtype) != elements) {
    return absl::InvalidArgumentError(absl::StrCat("payload: has ", payload.size(), " bytes, not what ",
                                                   num_tokens, " tokens at rank ", rank, " in ",
                                                   std::string(DTypeName(dtype)), " take"));
  }
  if (!AllFinite(dtype, {reinterpret_cast<const std::byte*>(payload.data()), payload.size()})) {
    return absl::DataLossError("payload: holds a number that is not finite");
  }
  return absl::OkStatus();
}

}  // namespace scd
