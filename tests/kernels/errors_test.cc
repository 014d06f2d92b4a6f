// Every bad operand is refused with INVALID_ARGUMENT and its name, by every backend, before anything is
// written.
#include <cmath>
#include <functional>
#include <limits>

#include "gmock/gmock.h"
#include "tests/kernels/backend_rig.h"

namespace scd::testing {
namespace {

using ::testing::HasSubstr;

class ErrorsTest : public ::testing::TestWithParam<const char*> {
 protected:
  Backend& backend() { return rig_.backend(); }
  Stream& stream() { return rig_.stream(); }

  static void ExpectRefused(const absl::Status& status, const std::string& operand) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << "bad " << operand << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(operand));
  }

  using Call = std::function<absl::Status(const TensorView&)>;

  // `call` uses what it is given in the operand's place.
  static void ExpectTypeChecked(const std::string& operand, const TensorView& good, const Call& call) {
    ExpectOk(call(good));
    ExpectRefused(call(TensorView(good.data(), DType::kU8, good.shape())), operand);
    ExpectRefused(call(TensorView(good.data(), good.dtype(), good.shape(), Device::kCuda)), operand);
    Shape negative = good.shape();
    negative.set_dim(0, -1);
    ExpectRefused(call(TensorView(good.data(), good.dtype(), negative)), operand);
  }

  // For an operand whose last dimension others fix.
  static void ExpectTypeAndShapeChecked(const std::string& operand, const TensorView& good,
                                        const Call& call) {
    ExpectTypeChecked(operand, good, call);
    ExpectRefused(call(TensorView(good.data(), good.dtype(), {good.num_elements(), 1, 1, 1})), operand);
    Shape wider = good.shape();
    wider.set_dim(good.rank() - 1, wider[good.rank() - 1] + 1);
    ExpectRefused(call(TensorView(good.data(), good.dtype(), wider)), operand);
  }

  // For one that must be there.
  static void ExpectPresenceChecked(const std::string& operand, const TensorView& good, const Call& call) {
    ExpectRefused(call({}), operand);
    ExpectRefused(call(TensorView(nullptr, good.dtype(), good.shape())), operand);
  }

  static void ExpectChecked(const std::string& operand, const TensorView& good, const Call& call) {
    ExpectTypeAndShapeChecked(operand, good, call);
    ExpectPresenceChecked(operand, good, call);
  }

  BackendRig rig_{{.device = GetParam()}};
};

TEST_P(ErrorsTest, PackWeight) {
  const std::vector<float> values = Random(12, 1);
  const ConstTensorView weight(values.data(), DType::kF32, {3, 4});
  EXPECT_TRUE(backend().PackWeight(weight, {}).ok());
  ExpectRefused(backend().PackWeight({}, {}).status(), "weight");
  ExpectRefused(backend().PackWeight(ConstTensorView(values.data(), DType::kF32, {12}), {}).status(),
                "weight");
  ExpectRefused(backend().PackWeight(ConstTensorView(values.data(), DType::kF32, {0, 4}), {}).status(),
                "weight");
  ExpectRefused(backend().PackWeight(ConstTensorView(values.data(), DType::kF32, {3, 0}), {}).status(),
                "weight");
  ExpectRefused(backend().PackWeight(ConstTensorView(values.data(), DType::kI32, {3, 4}), {}).status(),
                "weight");
  ExpectRefused(backend().PackWeight(ConstTensorView(nullptr, DType::kF32, {3, 4}), {}).status(), "weight");
  ExpectRefused(backend().PackWeight(weight, ConstTensorView(values.data(), DType::kF32, {4})).status(),
                "bias");
  ExpectRefused(backend().PackWeight(weight, ConstTensorView(values.data(), DType::kBF16, {3})).status(),
                "bias");
}

TEST_P(ErrorsTest, MatMul) {
  const auto weight = rig_.Pack({3, 4}, Random(12, 1), {});
  const RigTensor x = rig_.Put({2, 4}, Random(8, 2));
  const RigTensor out = rig_.Make({2, 3});
  ExpectChecked("x", x.view, [&](const TensorView& bad) {
    return backend().MatMul(stream(), bad, *weight, out.view, {});
  });
  ExpectChecked("out", out.view,
                [&](const TensorView& bad) { return backend().MatMul(stream(), x.view, *weight, bad, {}); });

  const char* other_name = std::string(GetParam()) == "cpu" ? "reference" : "cpu";
  BackendRig other({.device = other_name});
  const auto foreign = other.Pack({3, 4}, Random(12, 1), {});
  ExpectRefused(backend().MatMul(stream(), x.view, *foreign, out.view, {}), "weight");
}

TEST_P(ErrorsTest, CutsAndColumns) {
  const std::vector<float> values = Random(6 * 32, 1);
  const ConstTensorView weight(values.data(), DType::kF32, {6, 32});
  for (const std::vector<std::int64_t>& bad :
       {std::vector<std::int64_t>{0}, {6}, {-1}, {2, 2}, {4, 2}, {7}}) {
    for (const WeightFormat format : {WeightFormat::kDense, WeightFormat::kInt8, WeightFormat::kInt4}) {
      ExpectRefused(backend().PackWeight(weight, {}, {.format = format, .cuts = bad}).status(), "cuts");
    }
  }
  const RigTensor x = rig_.Put({2, 32}, Random(64, 2));
  const RigTensor out = rig_.Make({2, 6});
  for (const WeightFormat format : {WeightFormat::kDense, WeightFormat::kInt8, WeightFormat::kInt4}) {
    const auto packed = *backend().PackWeight(weight, {}, {.format = format, .cuts = {2, 5}});
    EXPECT_EQ(packed->cuts(), absl::Span<const std::int64_t>({2, 5}));
    const auto multiply = [&](std::int64_t begin, std::int64_t end, std::int64_t columns) {
      return backend().MatMul(stream(), x.view, *packed,
                              TensorView(out.view.data(), DType::kF32, {2, columns}),
                              {.columns = {begin, end}});
    };
    ExpectOk(multiply(2, 5, 3));
    ExpectOk(multiply(2, 0, 4));
    ExpectRefused(multiply(2, 5, 4), "out");
    ExpectRefused(multiply(0, 3, 3), "options.columns");
    ExpectRefused(multiply(1, 5, 4), "options.columns");
    ExpectRefused(multiply(5, 2, 3), "options.columns");
    ExpectRefused(multiply(2, 2, 1), "options.columns");
    ExpectRefused(multiply(-2, 5, 7), "options.columns");
    ExpectRefused(multiply(2, 7, 5), "options.columns");
  }
}

TEST_P(ErrorsTest, PackQuantized) {
  const std::vector<float> values = Random(3 * 32, 1);
  const auto quantized = QuantizeMatrix(ConstTensorView(values.data(), DType::kF32, {3, 32}), 8);
  ExpectOk(quantized.status());
  const QuantizedMatrix& good = *quantized;
  ExpectOk(backend().PackQuantized(good, {}).status());
  ExpectRefused(backend().PackQuantized(good, ConstTensorView(values.data(), DType::kF32, {4})).status(),
                "bias");
  ExpectRefused(backend().PackQuantized(good, {}, {3}).status(), "cuts");
  QuantizedMatrix bad = good;
  bad.out_features = std::int64_t{1} << 60;
  ExpectRefused(backend().PackQuantized(bad, {}).status(), "weight");
  bad = good;
  bad.scales[1] = NAN;
  ExpectRefused(backend().PackQuantized(bad, {}).status(), "weight");
  ExpectRefused(backend().PackQuantized({}, {}).status(), "weight");

  const ConstTensorView ragged(values.data(), DType::kF32, {2, 48});
  ExpectRefused(backend().PackWeight(ragged, {}, {.format = WeightFormat::kInt8}).status(), "weight");
}

TEST_P(ErrorsTest, RowsThatOverlapOrColumnsWithGaps) {
  const auto weight = rig_.Pack({3, 4}, Random(12, 1), {});
  const RigTensor wide = rig_.Put({4, 8}, Random(32, 2));
  const RigTensor out = rig_.Make({2, 3});
  // Rows of 4 elements that begin 2 elements apart.
  const TensorView narrow = TensorView(wide.view.data(), DType::kF32, {4, 2});
  TensorView overlapping = narrow.columns(0, 4).rows(0, 2);
  ExpectRefused(backend().MatMul(stream(), overlapping, *weight, out.view, {}), "x");
  // [tokens, heads, head_dim] whose heads are not beside each other.
  const RigTensor cos = rig_.Put({4, 1}, Random(4, 3));
  const RigTensor positions = rig_.PutIndices({0, 1});
  const TensorView gaps = TensorView(wide.view.data(), DType::kF32, {2, 2, 8}).columns(0, 2);
  ExpectRefused(backend().Rope(stream(), gaps, positions.view, {cos.view, cos.view}), "x");
}

TEST_P(ErrorsTest, Gemm) {
  const RigTensor a = rig_.Put({2, 3}, Random(6, 1));
  const RigTensor b = rig_.Put({3, 4}, Random(12, 2));
  const RigTensor c = rig_.Make({2, 4});
  ExpectChecked("c", c.view,
                [&](const TensorView& bad) { return backend().Gemm(stream(), a.view, b.view, bad, {}); });
  ExpectRefused(backend().Gemm(stream(), {}, b.view, c.view, {}), "a");
  ExpectRefused(backend().Gemm(stream(), a.view, a.view, c.view, {}), "b");
  ExpectRefused(backend().Gemm(stream(), a.view, b.view, c.view, {.transpose_a = true}), "b");
  ExpectRefused(backend().Gemm(stream(), a.view, b.view, c.view, {.transpose_b = true}), "b");
}

TEST_P(ErrorsTest, RmsNorm) {
  const RigTensor x = rig_.Put({2, 4}, Random(8, 1));
  const RigTensor weight = rig_.Put({4}, Random(4, 2));
  const RigTensor out = rig_.Make({2, 4});
  ExpectChecked("weight", weight.view, [&](const TensorView& bad) {
    return backend().RmsNorm(stream(), x.view, bad, 1e-5f, out.view);
  });
  ExpectChecked("out", out.view, [&](const TensorView& bad) {
    return backend().RmsNorm(stream(), x.view, weight.view, 1e-5f, bad);
  });
  ExpectRefused(backend().RmsNorm(stream(), {}, weight.view, 1e-5f, out.view), "x");
  for (const float epsilon : {-1.0f, NAN, std::numeric_limits<float>::infinity()}) {
    ExpectRefused(backend().RmsNorm(stream(), x.view, weight.view, epsilon, out.view), "epsilon");
  }
}

TEST_P(ErrorsTest, Rope) {
  const RigTensor x = rig_.Put({2, 1, 4}, Random(8, 1));
  const RigTensor odd = rig_.Put({2, 1, 3}, Random(6, 1));
  const RigTensor cos = rig_.Put({5, 2}, Random(10, 2));
  const RigTensor short_sin = rig_.Put({4, 2}, Random(8, 2));
  const RigTensor positions = rig_.PutIndices({0, 4});
  const RopeTable table{cos.view, cos.view};
  ExpectChecked("x", x.view,
                [&](const TensorView& bad) { return backend().Rope(stream(), bad, positions.view, table); });
  ExpectChecked("cos", cos.view, [&](const TensorView& bad) {
    return backend().Rope(stream(), x.view, positions.view, {bad, cos.view});
  });
  ExpectRefused(backend().Rope(stream(), odd.view, positions.view, table), "x");
  ExpectRefused(backend().Rope(stream(), x.view, positions.view, {cos.view, short_sin.view}), "sin");
  ExpectRefused(backend().Rope(stream(), x.view, rig_.PutIndices({0}).view, table), "positions");
  const std::vector<float> before = rig_.Get(x);
  ExpectRefused(backend().Rope(stream(), x.view, rig_.PutIndices({0, 5}).view, table), "positions");
  ExpectRefused(backend().Rope(stream(), x.view, rig_.PutIndices({0, -1}).view, table), "positions");
  EXPECT_EQ(rig_.Get(x), before);
}

TEST_P(ErrorsTest, SwiGluAndSilu) {
  const RigTensor gate = rig_.Put({2, 4}, Random(8, 1));
  const RigTensor out = rig_.Make({2, 4});
  ExpectChecked("up", gate.view,
                [&](const TensorView& bad) { return backend().SwiGlu(stream(), gate.view, bad, out.view); });
  ExpectChecked("out", out.view,
                [&](const TensorView& bad) { return backend().SwiGlu(stream(), gate.view, gate.view, bad); });
  ExpectRefused(backend().SwiGlu(stream(), {}, gate.view, out.view), "gate");
  ExpectRefused(backend().Silu(stream(), {}), "x");
  ExpectRefused(backend().Silu(stream(), TensorView(out.view.data(), DType::kF16, {2, 4})), "x");
}

TEST_P(ErrorsTest, Embed) {
  const RigTensor table = rig_.Put({3, 4}, Random(12, 1));
  const RigTensor ids = rig_.PutIndices({0, 2});
  const RigTensor out = rig_.Put({2, 4}, Random(8, 2));
  ExpectChecked("out", out.view,
                [&](const TensorView& bad) { return backend().Embed(stream(), table.view, ids.view, bad); });
  ExpectRefused(
      backend().Embed(stream(), TensorView(table.view.data(), DType::kI32, {3, 4}), ids.view, out.view),
      "table");
  ExpectRefused(backend().Embed(stream(), table.view, table.view.rows(0, 2), out.view), "ids");
  const std::vector<float> before = rig_.Get(out);
  ExpectRefused(backend().Embed(stream(), table.view, rig_.PutIndices({0, 3}).view, out.view), "ids");
  ExpectRefused(backend().Embed(stream(), table.view, rig_.PutIndices({0, -1}).view, out.view), "ids");
  EXPECT_EQ(rig_.Get(out), before);
}

TEST_P(ErrorsTest, Copy) {
  const RigTensor f32 = rig_.Put({2, 4}, Random(8, 1));
  const RigTensor i32 = rig_.Make({2, 4}, 0, DType::kI32);
  ExpectRefused(backend().Copy(stream(), f32.view, i32.view), "dst");
  ExpectRefused(backend().Copy(stream(), f32.view, f32.view.rows(0, 1)), "dst");
  ExpectRefused(backend().Copy(stream(), TensorView(nullptr, DType::kF32, {2, 4}), f32.view), "dst");
  ExpectRefused(backend().Copy(stream(), f32.view, ConstTensorView(nullptr, DType::kF32, {2, 4})), "src");
  ExpectRefused(backend().Copy(stream(), f32.view, ConstTensorView(f32.view.data(), DType::kF32, {-2, 4})),
                "dst");
  ExpectRefused(backend().Copy(stream(), f32.view,
                               ConstTensorView(f32.view.data(), DType::kF32, {2, 4}, Device::kCuda)),
                "host memory");
}

// A valid KV cache of two pages of four positions, and a call of each op on it to change one thing of.
class KvErrorsTest : public ErrorsTest {
 protected:
  absl::Status Attend() { return backend().Attention(stream(), q_, sequences_, options_, out_.view); }
  absl::Status Write() { return backend().WriteKv(stream(), k_, k_, positions_, kv_); }

  RigTensor pages_ = rig_.Put({2, 2, 4, 8}, Random(128, 1));
  RigTensor block_table_ = rig_.PutIndices({1, 0});
  PagedKv kv_{pages_.view, pages_.view, block_table_.view};
  RigTensor q_tensor_ = rig_.Put({4, 4, 8}, Random(128, 2));
  TensorView q_ = q_tensor_.view;
  RigTensor out_ = rig_.Make({4, 4, 8});
  std::vector<AttentionSequence> sequences_ = {{0, 1, 7, kv_}, {1, 3, 0, kv_}};
  AttentionOptions options_{.scale = 0.3f};
  RigTensor k_tensor_ = rig_.Put({2, 2, 8}, Random(32, 3));
  TensorView k_ = k_tensor_.view;
  RigTensor positions_tensor_ = rig_.PutIndices({0, 7});
  TensorView positions_ = positions_tensor_.view;
};

TEST_P(KvErrorsTest, AttentionOperands) {
  const Call with_q = [&](const TensorView& bad) {
    return backend().Attention(stream(), bad, sequences_, options_, out_.view);
  };
  ExpectTypeChecked("q", q_, with_q);
  ExpectPresenceChecked("q", q_, with_q);
  ExpectChecked("out", out_.view, [&](const TensorView& bad) {
    return backend().Attention(stream(), q_, sequences_, options_, bad);
  });
  const Call with_k_pages = [&](const TensorView& bad) {
    sequences_[1].kv = {bad, pages_.view, block_table_.view};
    return Attend();
  };
  ExpectTypeChecked("k_pages", pages_.view, with_k_pages);
  ExpectPresenceChecked("k_pages", pages_.view, with_k_pages);
  const Call with_v_pages = [&](const TensorView& bad) {
    sequences_[1].kv = {pages_.view, bad, block_table_.view};
    return Attend();
  };
  ExpectTypeChecked("v_pages", pages_.view, with_v_pages);
  ExpectPresenceChecked("v_pages", pages_.view, with_v_pages);
}

TEST_P(KvErrorsTest, AttentionSequences) {
  const std::vector<AttentionSequence> good = sequences_;
  const auto expect_refused = [&](const std::function<void(AttentionSequence&)>& spoil,
                                  const std::string& operand) {
    sequences_ = good;
    spoil(sequences_[1]);
    ExpectRefused(Attend(), operand);
  };
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{4}, kHuge}) {
    expect_refused([&](AttentionSequence& s) { s.query_count = count; }, "sequences[1]");
  }
  for (const std::int64_t begin : {std::int64_t{-1}, std::int64_t{2}, kHuge}) {
    expect_refused([&](AttentionSequence& s) { s.query_begin = begin; }, "sequences[1]");
  }
  for (const std::int64_t position : {std::int64_t{-1}, std::int64_t{6}, kHuge}) {
    expect_refused([&](AttentionSequence& s) { s.first_position = position; }, "sequences[1]");
  }
  expect_refused([&](AttentionSequence& s) { s.query_begin = 0; }, "share row 0");
  expect_refused([&](AttentionSequence& s) { s.kv.block_table = {}; }, "block_table");
  const RigTensor beyond = rig_.PutIndices({1, 2});
  expect_refused(
      [&](AttentionSequence& s) {
        s.kv.block_table = beyond.view;
        s.first_position = 4;
      },
      "block_table");
  const RigTensor negative = rig_.PutIndices({-1, 0});
  expect_refused([&](AttentionSequence& s) { s.kv.block_table = negative.view; }, "block_table");

  sequences_ = good;
  options_.sliding_window = -1;
  ExpectRefused(Attend(), "sliding_window");
  options_.sliding_window = kHuge;
  ExpectOk(Attend());
  options_.scale = NAN;
  ExpectRefused(Attend(), "scale");
}

TEST_P(KvErrorsTest, AttentionHeads) {
  const RigTensor three_heads = rig_.Put({4, 3, 8}, Random(96, 1));
  const RigTensor three_out = rig_.Make({4, 3, 8});
  ExpectRefused(backend().Attention(stream(), three_heads.view, sequences_, options_, three_out.view),
                "kv_heads");
  const RigTensor wide = rig_.Put({4, 4, 9}, Random(144, 1));
  const RigTensor wide_out = rig_.Make({4, 4, 9});
  ExpectRefused(backend().Attention(stream(), wide.view, sequences_, options_, wide_out.view), "head_dim");
}

TEST_P(KvErrorsTest, WriteKv) {
  ExpectTypeAndShapeChecked("k", k_, [&](const TensorView& bad) {
    return backend().WriteKv(stream(), bad, k_tensor_.view, positions_, kv_);
  });
  ExpectTypeAndShapeChecked(
      "v", k_, [&](const TensorView& bad) { return backend().WriteKv(stream(), k_, bad, positions_, kv_); });
  ExpectRefused(backend().WriteKv(stream(), {}, {}, positions_, kv_), "absent");
  const RigTensor one_position = rig_.PutIndices({0});
  ExpectRefused(backend().WriteKv(stream(), k_, k_, one_position.view, kv_), "k");
  const std::vector<float> before = rig_.Get(pages_);
  for (const std::vector<std::int32_t>& bad : {std::vector<std::int32_t>{0, 8}, {-1, 0}}) {
    const RigTensor positions = rig_.PutIndices(bad);
    positions_ = positions.view;
    ExpectRefused(Write(), "positions");
  }
  positions_ = positions_tensor_.view;
  const RigTensor beyond = rig_.PutIndices({1, 2});
  kv_.block_table = beyond.view;
  ExpectRefused(Write(), "block_table");
  EXPECT_EQ(rig_.Get(pages_), before);
}

INSTANTIATE_TEST_SUITE_P(Backends, ErrorsTest, ::testing::Values("reference", "cpu"));
INSTANTIATE_TEST_SUITE_P(Backends, KvErrorsTest, ::testing::Values("reference", "cpu"));

}  // namespace
}  // namespace scd::testing
