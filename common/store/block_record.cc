#include "common/store/block_record.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace scd {
namespace {

constexpr absl::string_view kMagic = "SCDCODES";
// Magic, version, number of payloads, key, number of tokens, four bytes of zero, time.
constexpr std::size_t kHeaderBytes = 8 + 4 + 4 + Digest::kBytes + 4 + 4 + 8;
constexpr std::size_t kLengthBytes = 4;

template <typename T>
void Append(T value, std::string* out) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out->push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xFF));
  }
}

template <typename T>
T ReadAt(absl::string_view bytes, std::size_t place) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[place + i])) << (8 * i);
  }
  return static_cast<T>(value);
}

Digest RecordDigest(absl::string_view bytes) {
  return DigestBuilder("scd.code_block.v1").AddString(bytes).Finish();
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("code block: ", what));
}

}  // namespace

std::size_t BlockRecordBytes(const CodeBlock& block) {
  std::size_t bytes = kHeaderBytes + Digest::kBytes;
  for (const absl::string_view payload : block.payloads) bytes += kLengthBytes + payload.size();
  return bytes;
}

std::string SerializeBlock(const Digest& key, const CodeBlock& block) {
  std::string out;
  out.reserve(BlockRecordBytes(block));
  absl::StrAppend(&out, kMagic);
  Append(kBlockRecordVersion, &out);
  Append(static_cast<std::uint32_t>(block.payloads.size()), &out);
  absl::StrAppend(&out, key.bytes());
  Append(static_cast<std::uint32_t>(block.num_tokens), &out);
  Append(std::uint32_t{0}, &out);
  Append(absl::ToUnixMillis(block.created), &out);
  for (const absl::string_view payload : block.payloads) {
    Append(static_cast<std::uint32_t>(payload.size()), &out);
  }
  for (const absl::string_view payload : block.payloads) absl::StrAppend(&out, payload);
  absl::StrAppend(&out, RecordDigest(out).bytes());
  return out;
}

absl::StatusOr<std::shared_ptr<const CodeBlock>> ParseBlock(const Digest& key, absl::string_view bytes,
                                                            std::shared_ptr<const void> owner) {
  if (bytes.size() < kHeaderBytes + Digest::kBytes) return Damaged("is shorter than its header");
  if (bytes.substr(0, kMagic.size()) != kMagic) return Damaged("does not begin as one");
  const auto version = ReadAt<std::uint32_t>(bytes, 8);
  if (version != kBlockRecordVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("code block: is of version ", version, ", this program reads ", kBlockRecordVersion));
  }
  const absl::string_view body = bytes.substr(0, bytes.size() - Digest::kBytes);
  if (RecordDigest(body).bytes() != bytes.substr(body.size())) return Damaged("its digest does not match");
  if (bytes.substr(16, Digest::kBytes) != key.bytes()) {
    return absl::FailedPreconditionError("code block: is another's, by the key in it");
  }

  const auto num_payloads = ReadAt<std::uint32_t>(bytes, 12);
  const auto num_tokens = ReadAt<std::uint32_t>(bytes, 32);
  if (num_tokens == 0 || num_tokens > std::numeric_limits<std::int32_t>::max()) {
    return Damaged(absl::StrCat("has ", num_tokens, " tokens"));
  }
  if (ReadAt<std::uint32_t>(bytes, 36) != 0) return Damaged("holds what this version does not have");
  if (num_payloads > (body.size() - kHeaderBytes) / kLengthBytes) return Damaged("is cut short");
  auto block = std::make_shared<CodeBlock>();
  block->num_tokens = num_tokens;
  block->created = absl::FromUnixMillis(ReadAt<std::int64_t>(bytes, 40));
  block->payloads.reserve(num_payloads);
  absl::string_view rest = body.substr(kHeaderBytes + num_payloads * kLengthBytes);
  for (std::size_t i = 0; i < num_payloads; ++i) {
    const auto length = ReadAt<std::uint32_t>(bytes, kHeaderBytes + i * kLengthBytes);
    if (length > rest.size()) return Damaged("is cut short");
    block->payloads.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  if (!rest.empty()) return Damaged("goes on behind its payloads");
  block->owner = std::move(owner);
  return block;
}

}  // namespace scd
