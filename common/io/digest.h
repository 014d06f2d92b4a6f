// Content digests: XXH3-128 over a specified byte sequence, written as 32 lower-case hex digits.
//
// Digests identify models, tokenizers, bundles and token blocks across processes and machines. They detect
// mistakes and decay, not forgery. What is fed, and in which order, is specified where a digest is made
// (docs/formats.md lists all). Integers are fed little-endian, strings with their length before them, so that no
// two different inputs feed the same bytes.
#ifndef SCD_COMMON_IO_DIGEST_H_
#define SCD_COMMON_IO_DIGEST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace scd {

class Digest {
 public:
  static constexpr std::size_t kBytes = 16;

  // All zero: "no digest".
  Digest() = default;
  explicit Digest(const std::array<std::uint8_t, kBytes>& bytes) : bytes_(bytes) {}

  // Exactly 32 hex digits, else INVALID_ARGUMENT.
  static absl::StatusOr<Digest> FromHex(absl::string_view hex);
  // Exactly 16 bytes, else INVALID_ARGUMENT.
  static absl::StatusOr<Digest> FromBytes(absl::string_view bytes);

  std::string ToHex() const;
  // The first 8 hex digits, for logs.
  std::string ToShortHex() const;
  absl::string_view bytes() const { return {reinterpret_cast<const char*>(bytes_.data()), kBytes}; }
  bool empty() const { return *this == Digest(); }

  friend bool operator==(const Digest&, const Digest&) = default;
  friend auto operator<=>(const Digest&, const Digest&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Digest& d) { return H::combine(std::move(h), d.bytes_); }

 private:
  std::array<std::uint8_t, kBytes> bytes_{};
};

// Feeds a digest piece by piece.
class DigestBuilder {
 public:
  // The domain separates kinds of digests ("scd.model.v1", ...).
  explicit DigestBuilder(absl::string_view domain);
  ~DigestBuilder();
  DigestBuilder(const DigestBuilder&) = delete;
  DigestBuilder& operator=(const DigestBuilder&) = delete;

  DigestBuilder& AddInt(std::int64_t value);
  DigestBuilder& AddDouble(double value);                 // its IEEE bits
  DigestBuilder& AddString(absl::string_view value);      // length, then bytes
  DigestBuilder& AddBytes(absl::Span<const std::byte> b); // length, then bytes
  DigestBuilder& AddDigest(const Digest& d);

  Digest Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// XXH3-64 of bytes, the checksum of wire frames.
std::uint64_t Checksum64(absl::Span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace scd

#endif  // SCD_COMMON_IO_DIGEST_H_
