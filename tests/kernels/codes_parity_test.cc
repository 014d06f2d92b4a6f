// Packing and unpacking of codes, and the best logits of a row.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/kernels/parity.h"

namespace scd::testing {
namespace {

class CodesParityTest : public ParityTest {};

std::vector<std::uint8_t> GetBytes(BackendRig& rig, const RigTensor& tensor) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(tensor.view.num_elements()));
  ExpectOk(rig.backend().Synchronize(rig.stream()));
  ExpectOk(rig.backend().Copy(rig.stream(), TensorView(bytes.data(), DType::kU8, tensor.view.shape()),
                              tensor.view));
  ExpectOk(rig.backend().Synchronize(rig.stream()));
  return bytes;
}

RigTensor PutBytes(BackendRig& rig, const std::vector<std::uint8_t>& bytes) {
  RigTensor tensor = rig.Make({static_cast<std::int64_t>(bytes.size())}, 0, DType::kU8);
  ExpectOk(rig.backend().Copy(rig.stream(), tensor.view,
                              ConstTensorView(bytes.data(), DType::kU8, tensor.view.shape())));
  ExpectOk(rig.backend().Synchronize(rig.stream()));
  return tensor;
}

// With numbers beyond f16 and groups of equal numbers.
std::vector<float> Numbers(std::int64_t rows, std::int64_t columns) {
  std::vector<float> numbers = Random(rows * columns, 3);
  for (std::size_t i = 0; i < numbers.size(); i += 97) numbers[i] *= 3000.0f;
  for (std::size_t i = 0; i < numbers.size(); i += 211) numbers[i] *= 1e6f;
  const auto row = static_cast<std::ptrdiff_t>(columns);
  if (rows > 2) std::fill(numbers.begin() + row, numbers.begin() + 2 * row, 0.7f);
  for (std::int64_t r = 0; r < rows; ++r) numbers[static_cast<std::size_t>(r * columns)] = -0.25f;
  return numbers;
}

TEST_P(CodesParityTest, PackedAndUnpackedToTheBit) {
  for (const std::int64_t bits : {8, 4}) {
    for (const bool by_column : {false, true}) {
      for (const std::int64_t columns : {1, 7, 32, 33, 192}) {
        for (const std::int64_t rows : {1, 31, 32, 70}) {
          const GroupedIntegers layout{.bits = bits, .by_column = by_column, .columns = columns};
          const std::vector<float> numbers = Numbers(rows, columns);
          const auto pack = [&](BackendRig& rig) {
            const RigTensor from = rig.Put({rows, columns}, numbers, 3);
            const RigTensor bytes = rig.Make({layout.BytesOf(rows)}, 0, DType::kU8);
            ExpectOk(rig.backend().PackCodes(rig.stream(), from.view, layout, bytes.view));
            return GetBytes(rig, bytes);
          };
          const std::vector<std::uint8_t> bytes = pack(reference_);
          const std::string what =
              absl::StrCat(bits, " bits, ", rows, " rows of ", columns, by_column ? ", by column" : "");
          EXPECT_EQ(pack(tested_), bytes) << what;
          for (const DType dtype : {DType::kF32, DType::kBF16}) {
            for (const std::int64_t first : {std::int64_t{0}, rows / 2}) {
              const auto unpack = [&](BackendRig& rig) {
                const RigTensor from = PutBytes(rig, bytes);
                const RigTensor out = rig.Make({rows - first, columns}, 5, dtype);
                ExpectOk(rig.backend().UnpackCodes(rig.stream(), from.view, layout, first, out.view));
                return rig.Get(out);
              };
              EXPECT_EQ(unpack(tested_), unpack(reference_)) << what << " from " << first;
            }
          }
        }
      }
    }
  }
}

TEST_P(CodesParityTest, TooFewBytesAreRefused) {
  const GroupedIntegers layout{.bits = 8, .by_column = true, .columns = 5};
  const RigTensor bytes = tested_.Make({layout.BytesOf(40)}, 0, DType::kU8);
  const RigTensor out = tested_.Make({3, 5});
  const auto unpack = [&](std::int64_t first) {
    return tested_.backend().UnpackCodes(tested_.stream(), bytes.view, layout, first, out.view).code();
  };
  EXPECT_EQ(unpack(37), absl::StatusCode::kOk);
  EXPECT_EQ(unpack(38), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(unpack(-1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(unpack(std::numeric_limits<std::int64_t>::max()), absl::StatusCode::kInvalidArgument);
}

struct Best {
  std::vector<float> values, sums;
  std::vector<std::int32_t> ids;
};

Best BestOf(BackendRig& rig, std::int64_t rows, const std::vector<float>& logits, std::int64_t k) {
  const auto vocabulary = static_cast<std::int64_t>(logits.size()) / rows;
  const RigTensor from = rig.Put({rows, vocabulary}, logits, 3);
  std::vector<float> degrees;
  for (std::int64_t r = 0; r < rows; ++r) degrees.push_back(0.7f * static_cast<float>(r));
  const RigTensor temperatures = rig.Put({rows}, degrees);
  const RigTensor values = rig.Make({rows, k}, 1);
  const RigTensor ids = rig.Make({rows, k}, 0, DType::kI32);
  const RigTensor sums = rig.Make({rows, 2});
  ExpectOk(rig.backend().TopLogits(rig.stream(), from.view, temperatures.view,
                                   {values.view, ids.view, sums.view}));
  Best best{.values = rig.Get(values), .sums = rig.Get(sums), .ids = {}};
  best.ids.resize(static_cast<std::size_t>(rows * k));
  ExpectOk(rig.backend().Copy(rig.stream(), TensorView(best.ids.data(), DType::kI32, {rows, k}), ids.view));
  ExpectOk(rig.backend().Synchronize(rig.stream()));
  return best;
}

TEST_P(CodesParityTest, TopLogits) {
  for (const std::int64_t vocabulary : {1, 5, 300, 513, 3000}) {
    for (const std::int64_t k : {1, 3, 64, 256}) {
      if (k > vocabulary) continue;
      std::vector<float> logits = Random(3 * vocabulary, 4);
      for (float& logit : logits) logit *= 8.0f;
      // Rows with many equal logits, zeros of both signs and some that are out of the question.
      for (std::int64_t i = vocabulary; i < 2 * vocabulary; ++i) {
        float& logit = logits[static_cast<std::size_t>(i)];
        logit = std::round(logit / 4.0f) * (i % 2 == 0 ? 0.0f : -0.0f) + (i % 5 == 0 ? 2.0f : 0.0f);
        if (i % 7 == 0) logit = -std::numeric_limits<float>::infinity();
      }
      logits[static_cast<std::size_t>(2 * vocabulary - 1)] = 1.0f;
      const Best expected = BestOf(reference_, 3, logits, k);
      const Best best = BestOf(tested_, 3, logits, k);
      const std::string what = absl::StrCat("vocabulary ", vocabulary, " k ", k);
      EXPECT_EQ(best.ids, expected.ids) << what;
      EXPECT_EQ(best.values, expected.values) << what;
      for (std::size_t i = 0; i < best.sums.size(); ++i) {
        EXPECT_NEAR(best.sums[i], expected.sums[i], 1e-5 * expected.sums[i]) << what << " sum " << i;
      }
    }
  }
}

TEST_P(CodesParityTest, TopLogitsWhereTheBestStandClose) {
  // Few threads of a block have all that is large: more is left over than a block has room to sort.
  std::vector<float> logits = Random(60000, 4);
  for (std::size_t i = 0; i < logits.size(); i += 8) logits[i] += 100.0f;
  const Best expected = BestOf(reference_, 1, logits, 100);
  const Best best = BestOf(tested_, 1, logits, 100);
  EXPECT_EQ(best.ids, expected.ids);
  EXPECT_EQ(best.values, expected.values);
}

TEST_P(CodesParityTest, SumsOfLogitsThatAreNoneAreNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {NAN, kInfinity}) {
    std::vector<float> logits = Random(2 * 700, 4);
    logits[500] = bad;
    const Best best = BestOf(tested_, 2, logits, 4);
    EXPECT_TRUE(std::isnan(best.sums[0]) && std::isnan(best.sums[1]));
    EXPECT_FALSE(std::isnan(best.sums[2]) || std::isnan(best.sums[3]));
  }
  const Best best = BestOf(tested_, 1, std::vector<float>(700, -kInfinity), 4);
  EXPECT_TRUE(std::isnan(best.sums[0]) && std::isnan(best.sums[1]));
}

INSTANTIATE_TEST_SUITE_P(Backends, CodesParityTest, ::testing::ValuesIn(ParityBackends()), ParityName);

}  // namespace
}  // namespace scd::testing
