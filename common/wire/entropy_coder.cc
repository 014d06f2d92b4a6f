#include "common/wire/entropy_coder.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/wire/entropy_columns.h"
#include "common/wire/entropy_granule.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kLengthBytes = 3;

static_assert(kGranuleStateBytes + kEntropyGranule * kLargestEntropyRank * kLargestNumberBytes <
              std::int64_t{1} << (8 * kLengthBytes));

void WriteLength(std::size_t length, char* to) {
  for (std::size_t i = 0; i < kLengthBytes; ++i) to[i] = static_cast<char>(length >> (8 * i));
}

std::size_t ReadLength(const char* from) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::size_t{static_cast<std::uint8_t>(from[i])} << (8 * i);
  }
  return length;
}

std::int64_t NumGranules(std::int64_t num_tokens) {
  return num_tokens / kEntropyGranule + (num_tokens % kEntropyGranule != 0 ? 1 : 0);
}

}  // namespace

absl::StatusOr<std::vector<std::size_t>> EntropyGranules(absl::string_view payload, std::int64_t num_tokens) {
  std::vector<std::size_t> begins = {0};
  std::size_t at = 0;
  for (std::int64_t left = NumGranules(num_tokens); left > 0; --left) {
    if (payload.size() - at < kLengthBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("payload: ends before granule ", begins.size() - 1, " of ", NumGranules(num_tokens)));
    }
    const std::size_t length = ReadLength(payload.data() + at);
    if (length < kGranuleStateBytes || length > payload.size() - at - kLengthBytes) {
      return absl::InvalidArgumentError(absl::StrCat("payload: granule ", begins.size() - 1, " has ", length,
                                                     " bytes where ", payload.size() - at - kLengthBytes,
                                                     " are left"));
    }
    at += kLengthBytes + length;
    begins.push_back(at);
  }
  if (at != payload.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("payload: ", payload.size() - at, " bytes follow its last granule"));
  }
  return begins;
}

std::int64_t LargestEntropyPayload(std::int64_t num_tokens, std::int64_t rank) {
  return NumGranules(num_tokens) * (static_cast<std::int64_t>(kLengthBytes) + kGranuleStateBytes) +
         num_tokens * rank * kLargestNumberBytes;
}

class EntropyCoder::Impl {
 public:
  explicit Impl(const EntropyTables& tables) : columns(tables) {}

  const EntropyColumns columns;
};

EntropyCoder::EntropyCoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EntropyCoder::~EntropyCoder() = default;

absl::StatusOr<std::unique_ptr<EntropyCoder>> EntropyCoder::Create(const EntropyTables& tables) {
  SCD_RETURN_IF_ERROR(CheckEntropyTables(tables));
  return absl::WrapUnique(new EntropyCoder(std::make_unique<Impl>(tables)));
}

std::int64_t EntropyCoder::rank() const {
  return static_cast<std::int64_t>(impl_->columns.steps.size());
}

absl::StatusOr<std::string> EntropyCoder::Encode(const float* rows, std::int64_t num_tokens) const {
  GranuleEncoder encoder(impl_->columns, std::min(num_tokens, kEntropyGranule));
  std::string payload;
  for (std::int64_t begin = 0; begin < num_tokens; begin += kEntropyGranule) {
    const std::size_t at = payload.size();
    payload.resize(at + kLengthBytes);
    if (!encoder.Append(rows + begin * rank(), std::min(kEntropyGranule, num_tokens - begin), payload)) {
      return absl::OutOfRangeError(absl::StrCat(
          "codes: a number of tokens ", begin, " to ", std::min(begin + kEntropyGranule, num_tokens) - 1,
          " is not finite, or more than 2^30 times the step of its column"));
    }
    WriteLength(payload.size() - at - kLengthBytes, payload.data() + at);
  }
  return payload;
}

absl::Status EntropyCoder::Decode(absl::string_view payload, std::int64_t num_tokens, std::int64_t begin,
                                  std::int64_t count, float* out) const {
  const auto granules = EntropyGranules(payload, num_tokens);
  if (!granules.ok()) return absl::DataLossError(granules.status().message());
  GranuleDecoder decoder(impl_->columns, std::min(count, kEntropyGranule));
  for (std::int64_t t = begin; t < begin + count; t += kEntropyGranule) {
    const auto index = static_cast<std::size_t>(t / kEntropyGranule);
    const std::size_t from = (*granules)[index] + kLengthBytes;
    if (!decoder.Decode(payload.substr(from, (*granules)[index + 1] - from),
                        std::min(kEntropyGranule, num_tokens - t), out + (t - begin) * rank())) {
      return absl::DataLossError(absl::StrCat("payload: granule ", index, " is damaged"));
    }
  }
  return absl::OkStatus();
}

}  // namespace scd
