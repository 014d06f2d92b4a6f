// How the numbers of a transfer are written on the wire (docs/formats.md).
#ifndef SCD_COMMON_CONFIG_CODEC_H_
#define SCD_COMMON_CONFIG_CODEC_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace scd {

// The numbers are on the wire and in files: never renumber, only add.
enum class Codec : std::uint8_t {
  kBF16 = 1,
  kF32 = 2,
  // Asymmetric integers with an f16 scale and minimum for each group of 32 (KIVI, arXiv 2402.02750): K in
  // groups of tokens for each column, everything else in groups of columns for each token.
  kInt8 = 3,
  kInt4 = 4,
  // Integers on a grid that is fitted for each latent column, entropy coded with the bundle's tables
  // (entropy_tables.h). For codes alone: raw state has no tables.
  kEntropy = 5,
};

inline constexpr std::array kAllCodecs = {Codec::kBF16, Codec::kF32, Codec::kInt8, Codec::kInt4,
                                          Codec::kEntropy};

// "bf16", "f32", "int8", "int4", "entropy".
std::string_view CodecName(Codec codec);
std::optional<Codec> CodecByName(std::string_view name);

// Whether a payload's size follows from its numbers alone.
inline bool HasFixedSize(Codec codec) {
  return codec != Codec::kEntropy;
}

// Bits of one number, without scales. Of codecs of fixed size.
std::int64_t CodecBits(Codec codec);

// Numbers of an integer codec that share a scale and a minimum, and the bytes of the two.
inline constexpr std::int64_t kQuantGroup = 32;
inline constexpr std::int64_t kQuantGroupHeaderBytes = 4;

// Positions of one granule of codes of K and V together, in every codec: those of one granule are made, kept
// and rebuilt together.
inline constexpr std::int64_t kFusedGranule = 32;

inline bool IsQuantized(Codec codec) {
  return codec == Codec::kInt8 || codec == Codec::kInt4;
}

}  // namespace scd

#endif  // SCD_COMMON_CONFIG_CODEC_H_
