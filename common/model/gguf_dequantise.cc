#include "common/model/gguf_dequantise.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/model/gguf_block_fields.h"

namespace scd {
namespace {

using gguf::Byte;
using gguf::FifthBit;
using gguf::Half;
using gguf::HighNibble;
using gguf::kBlock;
using gguf::kScaleBytes;
using gguf::kSuperBlock;
using gguf::LowNibble;
using gguf::PackedScale;
using gguf::Scale;
using gguf::ScaleAndMin;
using gguf::Word;

struct TypeInfo {
  GgmlType type;
  const char* name;
  int elements;
  int bytes;
};

constexpr std::array<TypeInfo, 11> kTypes = {{
    {GgmlType::kF32, "f32", 1, 4},
    {GgmlType::kF16, "f16", 1, 2},
    {GgmlType::kBF16, "bf16", 1, 2},
    {GgmlType::kQ4_0, "q4_0", kBlock, 2 + 16},
    {GgmlType::kQ4_1, "q4_1", kBlock, 2 + 2 + 16},
    {GgmlType::kQ5_0, "q5_0", kBlock, 2 + 4 + 16},
    {GgmlType::kQ5_1, "q5_1", kBlock, 2 + 2 + 4 + 16},
    {GgmlType::kQ8_0, "q8_0", kBlock, 2 + 32},
    {GgmlType::kQ4_K, "q4_k", kSuperBlock, 2 + 2 + kScaleBytes + 128},
    {GgmlType::kQ5_K, "q5_k", kSuperBlock, 2 + 2 + kScaleBytes + 32 + 128},
    {GgmlType::kQ6_K, "q6_k", kSuperBlock, 128 + 64 + 16 + 2},
}};

struct OtherType {
  std::uint32_t number;
  const char* name;
};

// Types that ggml knows and this project does not read, so that messages can name them.
constexpr std::array<OtherType, 20> kOtherTypes = {{
    {9, "q8_1"},    {10, "q2_k"},    {11, "q3_k"},  {15, "q8_k"},   {16, "iq2_xxs"},
    {17, "iq2_xs"}, {18, "iq3_xxs"}, {19, "iq1_s"}, {20, "iq4_nl"}, {21, "iq3_s"},
    {22, "iq2_s"},  {23, "iq4_xs"},  {24, "i8"},    {25, "i16"},    {26, "i32"},
    {27, "i64"},    {28, "f64"},     {29, "iq1_m"}, {34, "tq1_0"},  {35, "tq2_0"},
}};

const TypeInfo& Info(GgmlType type) {
  for (const TypeInfo& info : kTypes) {
    if (info.type == type) return info;
  }
  return kTypes[0];
}

// In the 4- and 5-bit blocks byte j holds weight j in its low nibble and weight j + 16 in its high one.
void Q4_0Block(const std::byte* b, float* out) {
  const float d = Scale(b);
  for (int j = 0; j < kBlock / 2; ++j) {
    const std::uint8_t q = Byte(b + 2, j);
    out[j] = static_cast<float>(LowNibble(q) - 8) * d;
    out[j + kBlock / 2] = static_cast<float>(HighNibble(q) - 8) * d;
  }
}

void Q4_1Block(const std::byte* b, float* out) {
  const float d = Scale(b);
  const float m = Scale(b + 2);
  for (int j = 0; j < kBlock / 2; ++j) {
    const std::uint8_t q = Byte(b + 4, j);
    out[j] = static_cast<float>(LowNibble(q)) * d + m;
    out[j + kBlock / 2] = static_cast<float>(HighNibble(q)) * d + m;
  }
}

void Q5_0Block(const std::byte* b, float* out) {
  const float d = Scale(b);
  const std::uint32_t high = Word(b + 2);
  for (int j = 0; j < kBlock / 2; ++j) {
    const std::uint8_t q = Byte(b + 6, j);
    out[j] = static_cast<float>((LowNibble(q) | FifthBit(high, j)) - 16) * d;
    out[j + kBlock / 2] = static_cast<float>((HighNibble(q) | FifthBit(high, j + kBlock / 2)) - 16) * d;
  }
}

void Q5_1Block(const std::byte* b, float* out) {
  const float d = Scale(b);
  const float m = Scale(b + 2);
  const std::uint32_t high = Word(b + 4);
  for (int j = 0; j < kBlock / 2; ++j) {
    const std::uint8_t q = Byte(b + 8, j);
    out[j] = static_cast<float>(LowNibble(q) | FifthBit(high, j)) * d + m;
    out[j + kBlock / 2] = static_cast<float>(HighNibble(q) | FifthBit(high, j + kBlock / 2)) * d + m;
  }
}

void Q8_0Block(const std::byte* b, float* out) {
  const float d = Scale(b);
  for (int j = 0; j < kBlock; ++j) out[j] = static_cast<float>(static_cast<std::int8_t>(b[2 + j])) * d;
}

// Eight groups of 32 weights; two neighbouring groups share 32 bytes, the first in the low nibbles.
void Q4_KBlock(const std::byte* b, float* out) {
  const float d = Scale(b);
  const float dmin = Scale(b + 2);
  const std::byte* quants = b + 4 + kScaleBytes;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMin packed = PackedScale(b + 4, group);
    const float scale = d * packed.scale;
    const float min = dmin * packed.min;
    const std::byte* q = quants + group / 2 * 32;
    const int shift = group % 2 * 4;
    for (int j = 0; j < 32; ++j)
      out[group * 32 + j] = scale * static_cast<float>(Byte(q, j) >> shift & 15) - min;
  }
}

// As Q4_K, with a fifth bit: bit `group` of byte j is that of weight j of the group.
void Q5_KBlock(const std::byte* b, float* out) {
  const float d = Scale(b);
  const float dmin = Scale(b + 2);
  const std::byte* high = b + 4 + kScaleBytes;
  const std::byte* quants = high + 32;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMin packed = PackedScale(b + 4, group);
    const float scale = d * packed.scale;
    const float min = dmin * packed.min;
    const std::byte* q = quants + group / 2 * 32;
    const int shift = group % 2 * 4;
    for (int j = 0; j < 32; ++j) {
      const int value = (Byte(q, j) >> shift & 15) | (Byte(high, j) >> group & 1) << 4;
      out[group * 32 + j] = scale * static_cast<float>(value) - min;
    }
  }
}

// Two halves of 128 weights; each has four runs of 32, whose lower four bits lie in 64 bytes (runs 0 and 1 in
// the low nibbles, 2 and 3 in the high ones) and whose upper two bits share 32 bytes. A signed scale for
// every 16 weights.
void Q6_KBlock(const std::byte* b, float* out) {
  const std::byte* scales = b + 128 + 64;
  const float d = Scale(scales + 16);
  for (int half = 0; half < 2; ++half) {
    const std::byte* low = b + half * 64;
    const std::byte* high = b + 128 + half * 32;
    for (int run = 0; run < 4; ++run) {
      for (int j = 0; j < 32; ++j) {
        const int bits = (Byte(low, run % 2 * 32 + j) >> run / 2 * 4 & 15) | (Byte(high, j) >> run * 2 & 3)
                                                                                 << 4;
        const auto scale = static_cast<std::int8_t>(scales[half * 8 + run * 2 + j / 16]);
        out[half * 128 + run * 32 + j] = d * static_cast<float>(scale) * static_cast<float>(bits - 32);
      }
    }
  }
}

template <typename BlockFunction>
void ForEachBlock(GgmlType type, const std::byte* blocks, std::int64_t num_blocks, float* out,
                  BlockFunction one) {
  const std::int64_t bytes = GgmlBlockBytes(type);
  const std::int64_t elements = GgmlBlockElements(type);
  for (std::int64_t i = 0; i < num_blocks; ++i) one(blocks + i * bytes, out + i * elements);
}

}  // namespace

std::optional<GgmlType> GgmlTypeFromNumber(std::uint32_t number) {
  for (const TypeInfo& info : kTypes) {
    if (static_cast<std::uint32_t>(info.type) == number) return info.type;
  }
  return std::nullopt;
}

std::string GgmlTypeName(std::uint32_t number) {
  if (const auto type = GgmlTypeFromNumber(number)) return Info(*type).name;
  for (const OtherType& other : kOtherTypes) {
    if (other.number == number) return other.name;
  }
  return absl::StrCat("type ", number);
}

std::int64_t GgmlBlockElements(GgmlType type) {
  return Info(type).elements;
}
std::int64_t GgmlBlockBytes(GgmlType type) {
  return Info(type).bytes;
}

void DequantiseBlocks(GgmlType type, const std::byte* blocks, std::int64_t num_blocks, float* out) {
  switch (type) {
    case GgmlType::kF32:
      std::memcpy(out, blocks, static_cast<std::size_t>(num_blocks) * sizeof(float));
      return;
    case GgmlType::kF16:
      for (std::int64_t i = 0; i < num_blocks; ++i) out[i] = F16ToFloat(Half(blocks + 2 * i));
      return;
    case GgmlType::kBF16:
      for (std::int64_t i = 0; i < num_blocks; ++i) out[i] = Bf16ToFloat(Half(blocks + 2 * i));
      return;
    case GgmlType::kQ4_0:
      return ForEachBlock(type, blocks, num_blocks, out, Q4_0Block);
    case GgmlType::kQ4_1:
      return ForEachBlock(type, blocks, num_blocks, out, Q4_1Block);
    case GgmlType::kQ5_0:
      return ForEachBlock(type, blocks, num_blocks, out, Q5_0Block);
    case GgmlType::kQ5_1:
      return ForEachBlock(type, blocks, num_blocks, out, Q5_1Block);
    case GgmlType::kQ8_0:
      return ForEachBlock(type, blocks, num_blocks, out, Q8_0Block);
    case GgmlType::kQ4_K:
      return ForEachBlock(type, blocks, num_blocks, out, Q4_KBlock);
    case GgmlType::kQ5_K:
      return ForEachBlock(type, blocks, num_blocks, out, Q5_KBlock);
    case GgmlType::kQ6_K:
      return ForEachBlock(type, blocks, num_blocks, out, Q6_KBlock);
  }
}

}  // namespace scd
