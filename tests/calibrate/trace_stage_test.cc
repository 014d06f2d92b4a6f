#include "calibrate/trace_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/calibrate/tiny_run.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using testing::TinyRun;

TEST(PlanTraceGroupsTest, ShortPrefixesShareAPassAndLongOnesStandAlone) {
  Prefixes prefixes;
  for (const std::size_t length : {30, 40, 50, 300, 10, 100}) prefixes.emplace_back(length);
  const auto groups = PlanTraceGroups(prefixes, 100);
  std::vector<std::int64_t> ends;
  for (const TraceGroup& group : groups) ends.push_back(group.end);
  EXPECT_THAT(ends, ElementsAre(2, 3, 4, 5, 6));
}

TEST(IsHeldOutTest, EveryNthOrTheLastOfFew) {
  std::vector<std::int64_t> held_out;
  for (std::int64_t i = 0; i < 25; ++i) {
    if (IsHeldOut(i, 25, 10)) held_out.push_back(i);
  }
  EXPECT_THAT(held_out, ElementsAre(9, 19));
  EXPECT_TRUE(IsHeldOut(3, 4, 10));
  EXPECT_FALSE(IsHeldOut(2, 4, 10));
}

class TraceStageTest : public ::testing::Test {
 protected:
  absl::StatusOr<Traces> Run(const TraceStageOptions& options) {
    return RunTraceStage(run_.context(), *run_.loaded().producer, *run_.loaded().consumer, shape_, prefixes_,
                         options, DigestBuilder("test").Finish(), run_.workers());
  }

  static void ExpectSame(const Traces& a, const Traces& b) {
    for (std::size_t l = 0; l < a.k.size(); ++l) {
      EXPECT_EQ(a.k[l].Finish()->aa.values, b.k[l].Finish()->aa.values);
      EXPECT_EQ(a.v[l].Finish()->ab.values, b.v[l].Finish()->ab.values);
    }
    ASSERT_EQ(a.store->pieces().size(), b.store->pieces().size());
    std::vector<float> rows_a, rows_b;
    for (std::size_t i = 0; i < a.store->pieces().size(); ++i) {
      const TracePiece& piece = a.store->pieces()[i];
      ASSERT_TRUE(a.store->ReadHidden(piece, 2, PairSide::kConsumer, &rows_a).ok());
      ASSERT_TRUE(b.store->ReadHidden(b.store->pieces()[i], 2, PairSide::kConsumer, &rows_b).ok());
      EXPECT_EQ(rows_a, rows_b);
    }
  }

  TinyRun run_;
  TraceShape shape_ = run_.shape({0, 2});
  Prefixes prefixes_ = TinyRun::RandomPrefixes(12, 40, 5);
};

TEST_F(TraceStageTest, RowsAreCountedHeldOutAndHeadsLeftOut) {
  const Traces traces = Run({.native_head = 2, .hold_out_every = 5, .pass_tokens = 100}).value();
  EXPECT_EQ(traces.k[0].count(), 10 * 38);
  EXPECT_EQ(traces.v[3].count(), 10 * 38);
  EXPECT_EQ(traces.store->NumRows(false), 10 * 38);
  EXPECT_EQ(traces.store->NumRows(true), 2 * 38);
  EXPECT_EQ(traces.num_forward_passes, 2 * 6);
  for (const TracePiece& piece : traces.store->pieces()) {
    EXPECT_EQ(piece.first_position, 2);
    EXPECT_EQ(piece.held_out, piece.prefix % 5 == 4);
  }
}

TEST_F(TraceStageTest, LongPrefixesInSeveralPassesGiveTheSameRows) {
  const Traces whole = Run({.pass_tokens = 512, .checkpoint_prefixes = 100}).value();
  std::vector<float> k_whole, h_whole;
  ASSERT_TRUE(whole.store->ReadK(whole.store->pieces()[9], 1, PairSide::kConsumer, &k_whole).ok());
  ASSERT_TRUE(whole.store->ReadHidden(whole.store->pieces()[9], 2, PairSide::kProducer, &h_whole).ok());
  const Moments moments_whole = whole.k[3].Finish().value();

  const Traces pieces = Run({.pass_tokens = 16}).value();
  std::vector<float> k, h;
  for (const TracePiece& piece : pieces.store->pieces()) {
    if (piece.prefix != 9) continue;
    EXPECT_LE(piece.rows, 16);
    std::vector<float> part;
    ASSERT_TRUE(pieces.store->ReadK(piece, 1, PairSide::kConsumer, &part).ok());
    k.insert(k.end(), part.begin(), part.end());
    ASSERT_TRUE(pieces.store->ReadHidden(piece, 2, PairSide::kProducer, &part).ok());
    h.insert(h.end(), part.begin(), part.end());
  }
  EXPECT_THAT(k, Pointwise(FloatNear(1e-4f), k_whole));
  EXPECT_THAT(h, Pointwise(FloatNear(1e-4f), h_whole));
  const Moments moments = pieces.k[3].Finish().value();
  ASSERT_EQ(moments.count, moments_whole.count);
  for (std::size_t i = 0; i < moments.aa.values.size(); ++i) {
    EXPECT_NEAR(moments.aa.values[i], moments_whole.aa.values[i],
                1e-3 * (1 + std::abs(moments_whole.aa.values[i])));
  }
}

TEST_F(TraceStageTest, AStoppedRunGoesOnWithoutDoingAnythingTwice) {
  const TraceStageOptions options{.pass_tokens = 40, .checkpoint_prefixes = 1};
  const Traces whole = Run(options).value();
  EXPECT_EQ(whole.num_forward_passes, 24);

  // Another folder; stopped before it starts, then after a while by a stop that comes from the log of another
  // run.
  TinyRun other;
  const auto run = [&] {
    return RunTraceStage(other.context(), *other.loaded().producer, *other.loaded().consumer, shape_,
                         prefixes_, options, DigestBuilder("test").Finish(), other.workers());
  };
  other.stop().request_stop();
  EXPECT_TRUE(absl::IsCancelled(run().status()));
  other.ResetStop();
  other.OpenWork();
  const Traces resumed = run().value();
  EXPECT_EQ(resumed.num_forward_passes, 24);
  ExpectSame(whole, resumed);

  // Everything is there now: nothing runs again.
  other.OpenWork();
  const Traces again = run().value();
  EXPECT_EQ(again.num_forward_passes, 0);
  EXPECT_THAT(other.log().text, HasSubstr("12 of 12 prefixes were done by an earlier run"));
  ExpectSame(whole, again);
}

TEST_F(TraceStageTest, RecordsOfOtherInputsAndTruncatedScratchFilesAreNotUsed) {
  const TraceStageOptions options{.pass_tokens = 40};
  ASSERT_TRUE(Run(options).ok());
  run_.OpenWork();
  TraceStageOptions others = options;
  others.native_head = 3;
  EXPECT_EQ(Run(others)->num_forward_passes, 24);
  run_.OpenWork();
  std::filesystem::resize_file(run_.File("work/rows.scratch"), 100);
  const Traces anew = Run(others).value();
  EXPECT_EQ(anew.num_forward_passes, 24);
  EXPECT_THAT(run_.log().text, HasSubstr("starting anew"));
}

TEST_F(TraceStageTest, AttentionInputsBeyondF16AreToldWithTheRemedy) {
  shape_.hidden_dtype = DType::kF16;
  const Traces traces = Run({}).value();
  std::vector<float> half;
  ASSERT_TRUE(traces.store->ReadHidden(traces.store->pieces()[0], 2, PairSide::kProducer, &half).ok());
  EXPECT_GT(*std::max_element(half.begin(), half.end()), 0.1f);

  auto tap = TraceTap::Create(*run_.loaded().backend, shape_, 4).value();
  auto stream = run_.loaded().backend->CreateStream().value();
  const std::vector<float> kv(static_cast<std::size_t>(4 * shape_.d_kv), 1.0f);
  const std::vector<float> big(static_cast<std::size_t>(4 * shape_.hidden), 1e6f);
  const ConstTensorView kv_view(kv.data(), DType::kF32, {4, shape_.d_kv});
  for (std::int64_t l = 0; l < shape_.num_layers; ++l) {
    ASSERT_TRUE(tap->OnLayer({.layer = l,
                              .stream = stream.get(),
                              .k_pre_rope = kv_view,
                              .v = kv_view,
                              .attention_input = ConstTensorView(big.data(), DType::kF32, {4, shape_.hidden}),
                              .residual = {}})
                    .ok());
  }
  const auto store = TraceStore::Open(run_.File("big.scratch"), shape_, {}).value();
  const absl::Status status = store->Append({.rows = 4}, *tap, *tap, 0);
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_THAT(status.message(), HasSubstr("trace.scratch_dtype"));
}

}  // namespace
}  // namespace scd
