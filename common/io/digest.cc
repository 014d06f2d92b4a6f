#include "common/io/digest.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <new>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace scd {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

absl::StatusOr<Digest> Digest::FromHex(absl::string_view hex) {
  if (hex.size() != 2 * kBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a digest is 32 hex digits, got ", hex.size(), " characters"));
  }
  std::array<std::uint8_t, kBytes> bytes{};
  for (std::size_t i = 0; i < kBytes; ++i) {
    const int high = HexValue(hex[2 * i]);
    const int low = HexValue(hex[2 * i + 1]);
    if (high < 0 || low < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a digest is 32 hex digits, got \"", absl::CHexEscape(hex), "\""));
    }
    bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return Digest(bytes);
}

absl::StatusOr<Digest> Digest::FromBytes(absl::string_view bytes) {
  if (bytes.size() != kBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a digest is 16 bytes, got ", bytes.size()));
  }
  std::array<std::uint8_t, kBytes> out{};
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(out.data()));
  return Digest(out);
}

std::string Digest::ToHex() const {
  return absl::BytesToHexString(bytes());
}

std::string Digest::ToShortHex() const {
  return ToHex().substr(0, 8);
}

struct DigestBuilder::State {
  State() : xxh(XXH3_createState()) {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void Feed(const void* data, std::size_t size) {
    if (size > 0) XXH3_128bits_update(xxh, data, size);
  }

  XXH3_state_t* xxh;
};

DigestBuilder::DigestBuilder(absl::string_view domain) : state_(std::make_unique<State>()) {
  AddString(domain);
}
DigestBuilder::~DigestBuilder() = default;

DigestBuilder& DigestBuilder::AddInt(std::int64_t value) {
  std::array<std::uint8_t, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
  state_->Feed(bytes.data(), bytes.size());
  return *this;
}

DigestBuilder& DigestBuilder::AddDouble(double value) {
  return AddInt(std::bit_cast<std::int64_t>(value));
}

DigestBuilder& DigestBuilder::AddString(absl::string_view value) {
  AddInt(static_cast<std::int64_t>(value.size()));
  state_->Feed(value.data(), value.size());
  return *this;
}

DigestBuilder& DigestBuilder::AddBytes(absl::Span<const std::byte> b) {
  AddInt(static_cast<std::int64_t>(b.size()));
  state_->Feed(b.data(), b.size());
  return *this;
}

DigestBuilder& DigestBuilder::AddDigest(const Digest& d) {
  state_->Feed(d.bytes().data(), Digest::kBytes);
  return *this;
}

Digest DigestBuilder::Finish() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->xxh));
  std::array<std::uint8_t, Digest::kBytes> bytes{};
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), bytes.begin());
  return Digest(bytes);
}

std::uint64_t Checksum64(absl::Span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace scd
