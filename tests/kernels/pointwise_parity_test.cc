#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/kernels/parity.h"

namespace scd::testing {
namespace {

class PointwiseParityTest : public ParityTest {};

constexpr double kTolerance = 2e-6;
constexpr std::int64_t kRows[] = {1, 3, 17, 200};
constexpr std::int64_t kDims[] = {1, 5, 64, 576};

TEST_P(PointwiseParityTest, RmsNorm) {
  for (const std::int64_t rows : kRows) {
    for (const std::int64_t dim : kDims) {
      const std::vector<float> x = Random(rows * dim, 1);
      const std::vector<float> weight = Random(dim, 2);
      for (const std::int64_t gap : {0, 7}) {
        for (const bool in_place : {false, true}) {
          Compare(absl::StrCat("rows ", rows, " dim ", dim, " gap ", gap, " in place ", in_place), kTolerance,
                  [&](BackendRig& rig) {
                    const RigTensor x_tensor = rig.Put({rows, dim}, x, gap);
                    const RigTensor weight_tensor = rig.Put({dim}, weight);
                    const RigTensor other = rig.Make({rows, dim}, gap);
                    const RigTensor& out = in_place ? x_tensor : other;
                    ExpectOk(rig.backend().RmsNorm(rig.stream(), x_tensor.view, weight_tensor.view, 1e-5f,
                                                   out.view));
                    return rig.Get(out);
                  });
        }
      }
    }
  }
}

TEST_P(PointwiseParityTest, Rope) {
  constexpr std::int64_t kPositions = 40;
  for (const std::int64_t tokens : {1, 3, 17, 300}) {
    for (const std::int64_t head_dim : {2, 10, 64}) {
      for (const std::int64_t heads : {1, 3}) {
        const std::vector<float> x = Random(tokens * heads * head_dim, 1);
        const std::vector<float> cos = Random(kPositions * head_dim / 2, 2);
        const std::vector<float> sin = Random(kPositions * head_dim / 2, 3);
        std::vector<std::int32_t> positions;
        for (std::int64_t t = 0; t < tokens; ++t)
          positions.push_back(static_cast<std::int32_t>(t * 7 % kPositions));
        for (const std::int64_t gap : {0, 5}) {
          Compare(absl::StrCat("tokens ", tokens, " heads ", heads, " head_dim ", head_dim, " gap ", gap),
                  kTolerance, [&](BackendRig& rig) {
                    const RigTensor x_tensor = rig.Put({tokens, heads, head_dim}, x, gap);
                    const RigTensor cos_tensor = rig.Put({kPositions, head_dim / 2}, cos);
                    const RigTensor sin_tensor = rig.Put({kPositions, head_dim / 2}, sin);
                    const RigTensor positions_tensor = rig.PutIndices(positions);
                    ExpectOk(rig.backend().Rope(rig.stream(), x_tensor.view, positions_tensor.view,
                                                {cos_tensor.view, sin_tensor.view}));
                    return rig.Get(x_tensor);
                  });
        }
      }
    }
  }
}

TEST_P(PointwiseParityTest, SwiGluAndSilu) {
  for (const std::int64_t rows : kRows) {
    for (const std::int64_t dim : kDims) {
      std::vector<float> gate = Random(rows * dim, 1);
      // From where the sigmoid is flat on one side to where it is flat on the other.
      for (std::size_t i = 0; i < gate.size(); i += 3) gate[i] *= 100.0f;
      const std::vector<float> up = Random(rows * dim, 2);
      for (const std::int64_t gap : {0, 7}) {
        for (const int target : {0, 1, 2}) {
          Compare(absl::StrCat("SwiGlu rows ", rows, " dim ", dim, " gap ", gap, " into ", target),
                  kTolerance, [&](BackendRig& rig) {
                    const RigTensor tensors[] = {rig.Put({rows, dim}, gate, gap),
                                                 rig.Put({rows, dim}, up, gap), rig.Make({rows, dim}, gap)};
                    ExpectOk(rig.backend().SwiGlu(rig.stream(), tensors[0].view, tensors[1].view,
                                                  tensors[target].view));
                    return rig.Get(tensors[target]);
                  });
        }
        Compare(absl::StrCat("Silu rows ", rows, " dim ", dim, " gap ", gap), kTolerance,
                [&](BackendRig& rig) {
                  const RigTensor x = rig.Put({rows, dim}, gate, gap);
                  ExpectOk(rig.backend().Silu(rig.stream(), x.view));
                  return rig.Get(x);
                });
      }
    }
  }
}

TEST_P(PointwiseParityTest, SiluFarOutIsZeroOrItself) {
  const std::vector<float> x = {-1e4f, -200.0f, -105.0f, -88.5f, 88.5f, 105.0f, 200.0f, 1e4f, -1e30f, 1e30f};
  const RigTensor tensor = tested_.Put({1, 10}, x);
  ExpectOk(tested_.backend().Silu(tested_.stream(), tensor.view));
  const std::vector<float> result = tested_.Get(tensor);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(result[i], x[i] > 0.0f ? x[i] : 0.0f, std::abs(x[i]) * 1e-6f) << x[i];
  }
}

TEST_P(PointwiseParityTest, Embed) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const std::int64_t dim : kDims) {
      const std::vector<float> table = Random(11 * dim, 1);
      for (const std::int64_t tokens : {1, 3, 17, 100}) {
        std::vector<std::int32_t> ids;
        for (std::int64_t t = 0; t < tokens; ++t) ids.push_back(static_cast<std::int32_t>(t * 5 % 11));
        Compare(absl::StrCat("dtype ", static_cast<int>(dtype), " dim ", dim, " tokens ", tokens), 0.0,
                [&](BackendRig& rig) {
                  const RigTensor table_tensor = rig.Put({11, dim}, table, 3, dtype);
                  const RigTensor ids_tensor = rig.PutIndices(ids);
                  const RigTensor out = rig.Make({tokens, dim}, 2);
                  ExpectOk(rig.backend().Embed(rig.stream(), table_tensor.view, ids_tensor.view, out.view));
                  return rig.Get(out);
                });
      }
    }
  }
}

TEST_P(PointwiseParityTest, CopyConvertsBetweenFloats) {
  constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
  for (const std::int64_t rows : {1, 3, 70}) {
    for (const std::int64_t dim : {1, 5, 600}) {
      std::vector<float> values = Random(rows * dim, 1);
      for (std::size_t i = 0; i < values.size(); i += 4) values[i] *= 1e-6f;  // subnormal in f16
      for (const DType from : kDTypes) {
        for (const DType to : kDTypes) {
          Compare(absl::StrCat("rows ", rows, " dim ", dim, " from ", static_cast<int>(from), " to ",
                               static_cast<int>(to)),
                  0.0, [&](BackendRig& rig) {
                    const RigTensor src = rig.Put({rows, dim}, values, 3, from);
                    const RigTensor dst = rig.Make({rows, dim}, 1, to);
                    ExpectOk(rig.backend().Copy(rig.stream(), dst.view, src.view));
                    return rig.Get(dst);
                  });
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, PointwiseParityTest, ::testing::ValuesIn(ParityBackends()), ParityName);

}  // namespace
}  // namespace scd::testing
