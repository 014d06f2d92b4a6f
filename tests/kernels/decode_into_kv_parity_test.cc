// DecodeIntoKv against the reference, and against the ops that it is made of.
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "tests/kernels/kv_parity.h"

namespace scd::testing {
namespace {

struct Case {
  std::int64_t tokens = 5;
  std::int64_t rank = 12;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 8;
  DType codes = DType::kF32;
  DType pages = DType::kF32;
  KvPart part = KvPart::kK;
  bool rope = true;
  bool bias = true;
  std::int64_t first_position = 3;
};

std::string Describe(const Case& c) {
  return absl::StrCat("tokens ", c.tokens, " rank ", c.rank, " heads ", c.kv_heads, "x", c.head_dim,
                      " codes ", std::string(DTypeName(c.codes)), " pages ", std::string(DTypeName(c.pages)),
                      c.part == KvPart::kK ? " K" : " V", c.rope ? " roped" : "", c.bias ? " bias" : "");
}

// What both ways of a case work on.
struct Operands {
  Operands(BackendRig& rig, const Case& c)
      : width(c.kv_heads * c.head_dim),
        end(c.first_position + c.tokens),
        codes(rig.Put({c.tokens, c.rank}, Random(c.tokens * c.rank, 1), 3, c.codes)),
        decoder(rig.Pack({width, c.rank}, Random(width * c.rank, 2),
                         c.bias ? Random(width, 3) : std::vector<float>())),
        cos(rig.Put({end, c.head_dim / 2}, Random(end * (c.head_dim / 2), 4))),
        sin(rig.Put({end, c.head_dim / 2}, Random(end * (c.head_dim / 2), 5))),
        pages(MakePages(rig, c.pages, end, c.kv_heads, 7, c.head_dim)) {
    std::vector<std::int32_t> at(static_cast<std::size_t>(c.tokens));
    std::iota(at.rbegin(), at.rend(), static_cast<std::int32_t>(c.first_position));
    positions = rig.PutIndices(at);
  }

  RopeTable rope() const { return {.cos = cos.view, .sin = sin.view}; }

  std::int64_t width;
  std::int64_t end;
  RigTensor codes;
  std::unique_ptr<PackedWeight> decoder;
  RigTensor cos, sin;
  RigPages pages;
  RigTensor positions;
};

// The written vectors, seen by attention to one position each: a window of 1 gives V as it is kept. K is
// read as V of a cache whose parts are exchanged.
std::vector<float> Kept(BackendRig& rig, const Case& c, const Operands& o, PagedKv kv) {
  if (c.part == KvPart::kK) {
    std::swap(kv.k_pages, kv.v_pages);
    std::swap(kv.k_scales, kv.v_scales);
  }
  // The scores are of the other part, which must be numbers.
  const Shape shape = {c.tokens, c.kv_heads, c.head_dim};
  const RigTensor zeros = rig.Put(shape, std::vector<float>(static_cast<std::size_t>(shape.num_elements())));
  ExpectOk(rig.backend().WriteKv(rig.stream(), zeros.view, {}, o.positions.view, kv));
  const RigTensor q = rig.Put(shape, std::vector<float>(static_cast<std::size_t>(shape.num_elements())));
  const RigTensor out = rig.Make(shape);
  // Row by row: no backend rounds what one row reads.
  std::vector<AttentionSequence> rows;
  for (std::int64_t t = 0; t < c.tokens; ++t) rows.push_back({t, 1, c.first_position + t, kv});
  ExpectOk(
      rig.backend().Attention(rig.stream(), q.view, rows, {.scale = 1.0f, .sliding_window = 1}, out.view));
  return rig.Get(out);
}

std::vector<float> Fused(BackendRig& rig, const Case& c) {
  const Operands o(rig, c);
  const RopeTable rope = o.rope();
  ExpectOk(rig.backend().DecodeIntoKv(rig.stream(), o.codes.view, *o.decoder, c.part, o.positions.view,
                                      c.rope ? &rope : nullptr, o.pages.kv));
  return Kept(rig, c, o, o.pages.kv);
}

std::vector<float> StepByStep(BackendRig& rig, const Case& c) {
  const Operands o(rig, c);
  const RigTensor x = rig.Make({c.tokens, c.rank});
  const RigTensor rows = rig.Make({c.tokens, o.width});
  const TensorView heads = rows.view.Reshaped({c.tokens, c.kv_heads, c.head_dim});
  ExpectOk(rig.backend().Copy(rig.stream(), x.view, o.codes.view));
  ExpectOk(rig.backend().MatMul(rig.stream(), x.view, *o.decoder, rows.view));
  if (c.rope) ExpectOk(rig.backend().Rope(rig.stream(), heads, o.positions.view, o.rope()));
  const bool is_k = c.part == KvPart::kK;
  ExpectOk(rig.backend().WriteKv(rig.stream(), is_k ? heads : TensorView(), is_k ? TensorView() : heads,
                                 o.positions.view, o.pages.kv));
  return Kept(rig, c, o, o.pages.kv);
}

class DecodeIntoKvParityTest : public ParityTest {
 protected:
  void Check(const Case& c) {
    // Numbers that differ in their last bits may round to neighbours.
    const double rounding = c.pages == DType::kI8 ? 2.0 / 127 : c.pages == DType::kBF16 ? 1.0 / 128 : 0.0;
    Compare(Describe(c), GetParam().product_tolerance + rounding,
            [&c](BackendRig& rig) { return Fused(rig, c); });
    ExpectClose(Fused(tested_, c), StepByStep(tested_, c), 1e-5 + rounding, Describe(c) + " step by step");
  }
};

TEST_P(DecodeIntoKvParityTest, EveryRank) {
  for (std::int64_t rank = 1; rank <= 200; rank += rank < 40 ? 1 : 13) Check({.rank = rank});
}

TEST_P(DecodeIntoKvParityTest, EveryNumberOfTokens) {
  for (const std::int64_t tokens : {1, 2, 5, 6, 7, 47, 48, 49, 95, 97, 200, 300}) {
    Check({.tokens = tokens, .rank = 96, .kv_heads = 3, .head_dim = 64});
  }
}

TEST_P(DecodeIntoKvParityTest, EveryDTypeAndPart) {
  for (const DType pages : kPageDTypes) {
    for (const DType codes : {DType::kF32, DType::kBF16}) {
      for (const KvPart part : {KvPart::kK, KvPart::kV}) {
        for (const bool rope : {false, true}) {
          for (const bool bias : {false, true}) {
            Check({.tokens = 61,
                   .rank = 33,
                   .kv_heads = 3,
                   .head_dim = 20,
                   .codes = codes,
                   .pages = pages,
                   .part = part,
                   .rope = rope,
                   .bias = bias});
          }
        }
      }
    }
  }
}

TEST_P(DecodeIntoKvParityTest, OddHeadsWithoutRope) {
  for (const std::int64_t head_dim : {1, 5, 17}) {
    Check({.tokens = 9, .head_dim = head_dim, .part = KvPart::kV, .rope = false});
  }
}

// Weights that another kernel multiplies with: their products of few rows round the codes.
TEST_P(DecodeIntoKvParityTest, QuantisedDecoders) {
  for (const std::int64_t tokens : {1, 30, 300}) {
    for (const bool rope : {false, true}) {
      const Case c{.tokens = tokens, .rank = 96, .rope = rope};
      Compare(Describe(c) + " int8", 3e-2, [&c](BackendRig& rig) {
        Operands o(rig, c);
        const std::vector<float> weight = Random(o.width * c.rank, 2);
        const std::vector<float> bias = Random(o.width, 3);
        auto packed = rig.backend().PackWeight(ConstTensorView(weight.data(), DType::kF32, {o.width, c.rank}),
                                               ConstTensorView(bias.data(), DType::kF32, {o.width}),
                                               {.format = WeightFormat::kInt8});
        ExpectOk(packed.status());
        const RopeTable table = o.rope();
        ExpectOk(rig.backend().DecodeIntoKv(rig.stream(), o.codes.view, **packed, c.part, o.positions.view,
                                            c.rope ? &table : nullptr, o.pages.kv));
        return Kept(rig, c, o, o.pages.kv);
      });
    }
  }
}

// What was kept of K or V of one of two layers that are decoded with one product, or each with its own.
std::vector<float> KeptOfTwoLayers(BackendRig& rig, const Case& c, std::int64_t which, bool at_once) {
  const Operands o(rig, c);
  const RigPages second = MakePages(rig, c.pages, o.end, c.kv_heads, 7, c.head_dim);
  const RopeTable rope = o.rope();
  const KvTarget targets[] = {{.part = KvPart::kK, .rope = &rope, .kv = o.pages.kv},
                              {.part = KvPart::kV, .rope = nullptr, .kv = o.pages.kv},
                              {.part = KvPart::kK, .rope = &rope, .kv = second.kv},
                              {.part = KvPart::kV, .rope = nullptr, .kv = second.kv}};
  const std::vector<float> weight = Random(4 * o.width * c.rank, 2);
  const std::vector<float> bias = Random(4 * o.width, 3);
  const ConstTensorView rows(weight.data(), DType::kF32, {4 * o.width, c.rank});
  const ConstTensorView of_bias(bias.data(), DType::kF32, {4 * o.width});
  if (at_once) {
    const std::int64_t cuts[] = {o.width, 2 * o.width, 3 * o.width};
    const auto decoder = *rig.backend().PackWeight(rows, of_bias, {.cuts = cuts});
    ExpectOk(rig.backend().DecodeManyIntoKv(rig.stream(), o.codes.view, *decoder, o.positions.view, targets));
  } else {
    for (std::int64_t i = 0; i < 4; ++i) {
      const auto decoder =
          *rig.backend().PackWeight(rows.rows(i * o.width, o.width), of_bias.rows(i * o.width, o.width));
      const KvTarget& target = targets[i];
      ExpectOk(rig.backend().DecodeIntoKv(rig.stream(), o.codes.view, *decoder, target.part, o.positions.view,
                                          target.rope, target.kv));
    }
  }
  Case of_part = c;
  of_part.part = targets[which].part;
  return Kept(rig, of_part, o, targets[which].kv);
}

TEST_P(DecodeIntoKvParityTest, ManyAtOnceAreThoseOfEach) {
  for (const DType pages : kPageDTypes) {
    for (const std::int64_t tokens : {1, 61}) {
      const Case c{.tokens = tokens, .rank = 24, .kv_heads = 2, .head_dim = 16, .pages = pages};
      const double rounding = pages == DType::kI8 ? 2.0 / 127 : pages == DType::kBF16 ? 1.0 / 128 : 0.0;
      for (std::int64_t target = 0; target < 4; ++target) {
        ExpectClose(KeptOfTwoLayers(tested_, c, target, true), KeptOfTwoLayers(tested_, c, target, false),
                    1e-5 + rounding, Describe(c));
      }
    }
  }
}

TEST_P(DecodeIntoKvParityTest, ManyAtOnceNeedADecoderThatIsCutBetweenThem) {
  const Case c;
  const Operands o(tested_, c);
  const KvTarget target{.part = KvPart::kV, .rope = nullptr, .kv = o.pages.kv};
  const auto decode = [&](const std::vector<KvTarget>& targets) {
    return tested_.backend()
        .DecodeManyIntoKv(tested_.stream(), o.codes.view, *o.decoder, o.positions.view, targets)
        .code();
  };
  EXPECT_EQ(decode({target}), absl::StatusCode::kOk);
  EXPECT_EQ(decode({}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decode({target, target}), absl::StatusCode::kInvalidArgument);
  const auto uncut = tested_.Pack({2 * o.width, c.rank}, Random(2 * o.width * c.rank, 2), {});
  EXPECT_EQ(tested_.backend()
                .DecodeManyIntoKv(tested_.stream(), o.codes.view, *uncut, o.positions.view, {target, target})
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(DecodeIntoKvParityTest, NoTokens) {
  const Operands o(tested_, {});
  ExpectOk(tested_.backend().DecodeIntoKv(tested_.stream(), o.codes.view.rows(0, 0), *o.decoder, KvPart::kV,
                                          o.positions.view.rows(0, 0), nullptr, o.pages.kv));
}

TEST_P(DecodeIntoKvParityTest, HostileOperandsAreRefused) {
  const Case c;
  const Operands o(tested_, c);
  const auto decode = [&](const ConstTensorView& codes, const ConstTensorView& positions,
                          const RopeTable* rope, const PagedKv& kv) {
    absl::Status status =
        tested_.backend().DecodeIntoKv(tested_.stream(), codes, *o.decoder, c.part, positions, rope, kv);
    status.Update(tested_.backend().Synchronize(tested_.stream()));
    return status;
  };
  const auto refused = [](const absl::Status& status, const std::string& operand) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(std::string(status.message()).find(operand), std::string::npos) << status;
  };
  const RopeTable rope = o.rope();
  ExpectOk(decode(o.codes.view, o.positions.view, &rope, o.pages.kv));
  refused(decode({}, o.positions.view, &rope, o.pages.kv), "codes");
  refused(decode(o.codes.view.columns(0, 11), o.positions.view, &rope, o.pages.kv), "codes");
  refused(decode(o.codes.view, o.positions.view.rows(0, 4), &rope, o.pages.kv), "positions");
  for (const std::int32_t position : {-1, 14, 1 << 30}) {
    const RigTensor beyond = tested_.PutIndices({3, 4, 5, 6, position});
    refused(decode(o.codes.view, beyond.view, nullptr, o.pages.kv), "positions");
  }
  const RopeTable short_table{.cos = o.cos.view.rows(0, 7), .sin = o.sin.view.rows(0, 7)};
  refused(decode(o.codes.view, o.positions.view, &short_table, o.pages.kv), "positions");
  const RopeTable narrow{.cos = o.cos.view.columns(0, 3), .sin = o.sin.view.columns(0, 3)};
  refused(decode(o.codes.view, o.positions.view, &narrow, o.pages.kv), "rope.cos");
  for (const std::int32_t page : {-1, 4, 1 << 30}) {
    PagedKv kv = o.pages.kv;
    const RigTensor table = tested_.PutIndices({0, page});
    kv.block_table = table.view;
    refused(decode(o.codes.view, o.positions.view, &rope, kv), "block_table");
    refused(tested_.backend().WriteKv(tested_.stream(), o.codes.view.columns(0, 8).Reshaped({5, 1, 8}), {},
                                      o.positions.view, kv),
            "");
  }
  PagedKv no_scales = o.pages.kv;
  const RigTensor bytes = tested_.Make(o.pages.k.view.shape(), 0, DType::kI8);
  no_scales.k_pages = no_scales.v_pages = bytes.view;
  refused(decode(o.codes.view, o.positions.view, &rope, no_scales), "k_scales");
  PagedKv mixed = o.pages.kv;
  mixed.v_pages = bytes.view;
  refused(decode(o.codes.view, o.positions.view, &rope, mixed), "v_pages");
  const auto wide = tested_.Pack({17, 12}, Random(17 * 12, 1), {});
  refused(tested_.backend().DecodeIntoKv(tested_.stream(), o.codes.view, *wide, c.part, o.positions.view,
                                         &rope, o.pages.kv),
          "decoder");
}

INSTANTIATE_TEST_SUITE_P(Backends, DecodeIntoKvParityTest, ::testing::ValuesIn(ParityBackends()), ParityName);

}  // namespace
}  // namespace scd::testing
