#include "common/model/gguf_dequantise.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "common/io/safetensors.h"
#include "common/model/gguf_file.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

// Blocks and values of tests/common/model/make_gguf_fixtures.py, dequantised there by the gguf package.
TEST(GgufDequantiseTest, GivesTheValuesOfAnIndependentProgram) {
  const auto file = GgufFile::Open(testing::TestDataPath("gguf/quants.gguf"));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto expected = SafetensorsFile::Open(testing::TestDataPath("gguf/quants.safetensors"));
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ((*expected)->tensors().size(), 11U);
  for (const auto& [name, values] : (*expected)->tensors()) {
    const auto tensor = (*file)->Tensor(name);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(GgmlTypeName(tensor->type), absl::AsciiStrToLower(name));
    ASSERT_EQ(tensor->shape, values.shape()) << name;
    std::vector<float> got(static_cast<std::size_t>(values.num_elements()));
    DequantiseBlocks(tensor->type, tensor->data.data(),
                     values.num_elements() / GgmlBlockElements(tensor->type), got.data());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_FLOAT_EQ(got[i], values.as<float>()[i]) << name << " element " << i;
    }
  }
}

TEST(GgufDequantiseTest, NamesTypes) {
  EXPECT_EQ(GgmlTypeFromNumber(3), GgmlType::kQ4_1);
  EXPECT_EQ(GgmlTypeFromNumber(10), std::nullopt);
  EXPECT_EQ(GgmlTypeName(10), "q2_k");
  EXPECT_EQ(GgmlTypeName(250), "type 250");
}

}  // namespace
}  // namespace scd
