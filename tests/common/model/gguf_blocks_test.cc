#include "common/model/gguf_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/io/safetensors.h"
#include "common/model/gguf_file.h"
#include "common/model/gguf_model.h"
#include "kernels/dtype.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

std::int64_t SameRow(std::int64_t row) {
  return row;
}

std::vector<float> Dequantised(const QuantizedMatrix& matrix) {
  std::vector<float> out(matrix.values.size());
  for (std::int64_t row = 0; row < matrix.out_features; ++row) {
    DequantizeRow(matrix, row, out.data() + row * matrix.in_features);
  }
  return out;
}

// A q8_0 row of one block.
std::vector<std::byte> Q8Block(float scale, const std::vector<int>& values) {
  std::vector<std::byte> block(2 + kWeightGroup, std::byte{0});
  const std::uint16_t bits = FloatToF16(scale);
  std::memcpy(block.data(), &bits, sizeof(bits));
  for (std::size_t i = 0; i < values.size(); ++i) block[2 + i] = static_cast<std::byte>(values[i]);
  return block;
}

// Blocks and values of tests/common/model/make_gguf_fixtures.py, dequantised there by the gguf package. The
// q8_0 ones hold -128, which only a file made at random does.
TEST(GgufBlocksTest, StandForTheValuesOfAnIndependentProgram) {
  const auto file = GgufFile::Open(testing::TestDataPath("gguf/quants.gguf"));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto expected = SafetensorsFile::Open(testing::TestDataPath("gguf/quants.safetensors"));
  ASSERT_TRUE(expected.ok()) << expected.status();
  int num_types = 0;
  int num_exact = 0;
  for (const auto& [name, values] : (*expected)->tensors()) {
    SCOPED_TRACE(name);
    const GgufTensor tensor = (*file)->Tensor(name).value();
    if (!IsBlockType(tensor.type)) continue;
    ++num_types;
    const std::int64_t rows = values.dim(0);
    const std::int64_t columns = values.dim(1);
    const auto blocks = ConvertBlocks(tensor.type, tensor.data.data(), rows, columns, SameRow);
    ASSERT_TRUE(blocks.ok()) << blocks.status();
    ASSERT_TRUE(blocks->matrix.Validate().ok()) << blocks->matrix.Validate();
    EXPECT_EQ(blocks->exact, tensor.type != GgmlType::kQ6_K && tensor.type != GgmlType::kQ8_0);
    num_exact += blocks->exact ? 1 : 0;
    const bool four =
        tensor.type == GgmlType::kQ4_0 || tensor.type == GgmlType::kQ4_1 || tensor.type == GgmlType::kQ4_K;
    EXPECT_EQ(blocks->matrix.bits, four ? 4 : 8);
    const std::vector<float> got = Dequantised(blocks->matrix);
    for (std::int64_t i = 0; i < values.num_elements(); ++i) {
      const float* const group = values.as<float>() + i / kWeightGroup * kWeightGroup;
      float largest = 0;
      for (std::int64_t j = 0; j < kWeightGroup; ++j) largest = std::max(largest, std::abs(group[j]));
      const float tolerance = blocks->exact ? 1e-6F * largest : 0.51F / 127 * largest;
      ASSERT_NEAR(got[static_cast<std::size_t>(i)], values.as<float>()[i], tolerance) << "element " << i;
    }

    const auto swapped = ConvertBlocks(tensor.type, tensor.data.data(), rows, columns,
                                       [&](std::int64_t row) { return rows - 1 - row; });
    ASSERT_TRUE(swapped.ok()) << swapped.status();
    const std::vector<float> reversed = Dequantised(swapped->matrix);
    ASSERT_TRUE(std::equal(reversed.begin(), reversed.begin() + columns, got.end() - columns));
  }
  EXPECT_EQ(num_types, 8);
  EXPECT_EQ(num_exact, 6);
}

TEST(GgufBlocksTest, OrdinaryQ8BlocksAreKeptExactly) {
  const std::vector<std::byte> block = Q8Block(0.5F, {-127, 127, 3, 0, -1});
  const auto blocks = ConvertBlocks(GgmlType::kQ8_0, block.data(), 1, kWeightGroup, SameRow);
  ASSERT_TRUE(blocks.ok()) << blocks.status();
  EXPECT_TRUE(blocks->exact);
  const std::vector<float> got = Dequantised(blocks->matrix);
  EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 5),
            (std::vector<float>{-63.5F, 63.5F, 1.5F, 0.0F, -0.5F}));
}

TEST(GgufBlocksTest, NumbersMustBeFinite) {
  const std::vector<std::byte> block = Q8Block(INFINITY, {1});
  EXPECT_EQ(ConvertBlocks(GgmlType::kQ8_0, block.data(), 1, kWeightGroup, SameRow).status().message(),
            "holds a number that is NaN or infinite");
}

// Of a file that the gguf package wrote, with llama's order of the rows of Q and K.
TEST(GgufBlocksTest, OfAModelAreWhatItsWeightsAre) {
  const std::shared_ptr<const GgufFile> file =
      GgufFile::Open(testing::TestDataPath("gguf/tiny-llama.gguf")).value();
  const ModelConfig config = ParseGgufConfig(*file).value();
  const auto weights = OpenGgufWeights(file, config).value();
  int num_exact = 0;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (const WeightKind kind : LayerWeightKinds(config)) {
      SCOPED_TRACE(::testing::Message() << "layer " << layer << " " << WeightKindName(kind));
      const auto blocks = weights->LoadBlocks(kind, layer);
      ASSERT_TRUE(blocks.ok()) << blocks.status();
      if (!*blocks || !(*blocks)->exact) continue;
      ++num_exact;
      EXPECT_EQ((*blocks)->type_name, weights->Stored(kind, layer)->type);
      const std::vector<float> got = Dequantised((*blocks)->matrix);
      const std::vector<float> wanted = std::move(*weights->Load(kind, layer)).TakeFloats();
      ASSERT_EQ(got.size(), wanted.size());
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], wanted[i]) << "element " << i;
    }
  }
  EXPECT_GE(num_exact, 6);
  EXPECT_EQ(weights->LoadBlocks(WeightKind::kQBias, 0).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace scd
