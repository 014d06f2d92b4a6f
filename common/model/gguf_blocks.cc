#include "common/model/gguf_blocks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/io/finite.h"
#include "common/model/gguf_block_fields.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using gguf::Byte;
using gguf::FifthBit;
using gguf::HighNibble;
using gguf::kBlock;
using gguf::kScaleBytes;
using gguf::LowNibble;
using gguf::PackedScale;
using gguf::Scale;
using gguf::ScaleAndMin;
using gguf::Word;

static_assert(kBlock == kWeightGroup);

// One group of 32: where its integers go, its scale and its minimum.
struct Group {
  std::int8_t* values;
  float* scale;
  float* minimum;  // nullptr where the type has none
};

// Byte j holds weight j in its low nibble and weight j + 16 in its high one.
void Nibbles(const std::byte* quants, std::int8_t* values) {
  for (int j = 0; j < kBlock / 2; ++j) {
    values[j] = static_cast<std::int8_t>(LowNibble(Byte(quants, j)));
    values[j + kBlock / 2] = static_cast<std::int8_t>(HighNibble(Byte(quants, j)));
  }
}

void AddFifthBits(const std::byte* high, int offset, std::int8_t* values) {
  const std::uint32_t word = Word(high);
  for (int j = 0; j < kBlock; ++j)
    values[j] = static_cast<std::int8_t>((values[j] | FifthBit(word, j)) - offset);
}

// The `group`-th 32 weights of a q4_k or q5_k block; two neighbouring groups share 32 bytes.
void KGroup(const std::byte* block, const std::byte* quants, int group, const Group& out) {
  const ScaleAndMin packed = PackedScale(block + 4, group);
  *out.scale = Scale(block) * packed.scale;
  *out.minimum = -(Scale(block + 2) * packed.min);
  for (int j = 0; j < kBlock; ++j) {
    out.values[j] = static_cast<std::int8_t>(Byte(quants + group / 2 * 32, j) >> group % 2 * 4 & 15);
  }
}

// Group `group` of the block at `b`.
void ConvertGroup(GgmlType type, const std::byte* b, int group, const Group& out) {
  switch (type) {
    case GgmlType::kQ4_0:
      *out.scale = Scale(b);
      *out.minimum = -8.0F * Scale(b);
      return Nibbles(b + 2, out.values);
    case GgmlType::kQ4_1:
      *out.scale = Scale(b);
      *out.minimum = Scale(b + 2);
      return Nibbles(b + 4, out.values);
    case GgmlType::kQ5_0:
      *out.scale = Scale(b);
      Nibbles(b + 6, out.values);
      return AddFifthBits(b + 2, 16, out.values);
    case GgmlType::kQ5_1:
      *out.scale = Scale(b);
      *out.minimum = Scale(b + 2);
      Nibbles(b + 8, out.values);
      return AddFifthBits(b + 4, 0, out.values);
    case GgmlType::kQ8_0:
      *out.scale = Scale(b);
      for (int j = 0; j < kBlock; ++j) out.values[j] = static_cast<std::int8_t>(b[2 + j]);
      return;
    case GgmlType::kQ4_K:
      return KGroup(b, b + 4 + kScaleBytes, group, out);
    case GgmlType::kQ5_K: {
      const std::byte* high = b + 4 + kScaleBytes;
      KGroup(b, high + 32, group, out);
      for (int j = 0; j < kBlock; ++j) {
        out.values[j] = static_cast<std::int8_t>(out.values[j] | (Byte(high, j) >> group & 1) << 4);
      }
      return;
    }
    case GgmlType::kF32:
    case GgmlType::kF16:
    case GgmlType::kBF16:
    case GgmlType::kQ6_K:
      return;
  }
}

bool HasMinimum(GgmlType type) {
  return type != GgmlType::kQ5_0 && type != GgmlType::kQ8_0;
}

int BitsOf(GgmlType type) {
  return type == GgmlType::kQ4_0 || type == GgmlType::kQ4_1 || type == GgmlType::kQ4_K ? 4 : 8;
}

bool AllFiniteFloats(const std::vector<float>& values) {
  return AllFinite(DType::kF32,
                   {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)});
}

}  // namespace

bool IsBlockType(GgmlType type) {
  return type != GgmlType::kF32 && type != GgmlType::kF16 && type != GgmlType::kBF16;
}

absl::StatusOr<ConvertedBlocks> ConvertBlocks(GgmlType type, const std::byte* blocks, std::int64_t rows,
                                              std::int64_t columns,
                                              absl::FunctionRef<std::int64_t(std::int64_t)> source_row) {
  const std::int64_t row_blocks = columns / GgmlBlockElements(type);
  const std::int64_t row_bytes = row_blocks * GgmlBlockBytes(type);
  const auto not_finite = [] { return absl::InvalidArgumentError("holds a number that is NaN or infinite"); };

  ConvertedBlocks out;
  QuantizedMatrix& m = out.matrix;
  m.bits = BitsOf(type);
  m.out_features = rows;
  m.in_features = columns;
  if (type != GgmlType::kQ6_K) {
    const auto count = static_cast<std::size_t>(rows * columns);
    m.values.resize(count);
    m.scales.resize(count / kWeightGroup);
    if (HasMinimum(type)) m.minimums.resize(count / kWeightGroup);
    const auto groups = static_cast<int>(GgmlBlockElements(type) / kWeightGroup);
    std::size_t at = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::byte* block = blocks + source_row(row) * row_bytes;
      for (std::int64_t i = 0; i < row_blocks; ++i, block += GgmlBlockBytes(type)) {
        for (int group = 0; group < groups; ++group, ++at) {
          float* const minimum = m.minimums.empty() ? nullptr : &m.minimums[at];
          ConvertGroup(type, block, group, {&m.values[at * kWeightGroup], &m.scales[at], minimum});
        }
      }
    }
    if (!AllFiniteFloats(m.scales) || !AllFiniteFloats(m.minimums)) return not_finite();
    // No program writes a q8_0 block with -128, but a file may hold one.
    if (m.bits == 4 || std::find(m.values.begin(), m.values.end(), -128) == m.values.end()) return out;
  }
  std::vector<float> dense(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    DequantiseBlocks(type, blocks + source_row(row) * row_bytes, row_blocks, dense.data() + row * columns);
  }
  if (!AllFiniteFloats(dense)) return not_finite();
  out.exact = false;
  SCD_ASSIGN_OR_RETURN(m, QuantizeMatrix(ConstTensorView(dense.data(), DType::kF32, {rows, columns}), 8));
  return out;
}

}  // namespace scd
