// Fused translators: the linear part against another way to compute it, windows against their definition, and
// whole fits of rows whose relation is known.
#include "calibrate/fused_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "calibrate/entropy_fit.h"
#include "calibrate/fused_stage.h"
#include "calibrate/trace_tap.h"
#include "kernels/kv_projection.h"
#include "tests/calibrate/tiny_run.h"

namespace scd {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::TinyRun;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::int64_t kIn = 12;
constexpr std::int64_t kHalf = 5;
constexpr double kLambda = 1e-3;

// Numbers from -1 to 1.
RowMajor Uniform(std::int64_t rows, std::int64_t columns, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  return RowMajor::NullaryExpr(rows, columns, [&] { return uniform(random); });
}

TensorView View(RowMajor& m) {
  return MatrixView(m.data(), m.rows(), m.cols());
}

// Rows [K V] that depend on `a`, K with a much larger spread than V.
struct LinearRows {
  RowMajor a, kv;
  Moments moments;
};

LinearRows MakeLinearRows() {
  std::mt19937 random(5);
  LinearRows rows;
  rows.a = Uniform(600, kIn, random) * Uniform(kIn, kIn, random) + RowMajor::Constant(600, kIn, 3.0f);
  rows.kv = rows.a * Uniform(kIn, 2 * kHalf, random) + 0.5f * Uniform(600, 2 * kHalf, random);
  rows.kv.leftCols(kHalf) *= 40.0f;
  PairMoments sums(kIn, 2 * kHalf, true);
  const auto math = HostMath::Create(1).value();
  EXPECT_TRUE(sums.Add(*math, View(rows.a), View(rows.kv)).ok());
  rows.moments = sums.Finish().value();
  return rows;
}

TEST(FusedLinearTest, IsTheBestMapOfItsRankInUnitsOfTheSpreads) {
  LinearRows rows = MakeLinearRows();
  const Eigen::MatrixXd a = (rows.a.rowwise() - rows.a.colwise().mean()).cast<double>();
  const Eigen::MatrixXd kv = (rows.kv.rowwise() - rows.kv.colwise().mean()).cast<double>();
  const double sd_k = std::sqrt(kv.leftCols(kHalf).squaredNorm() / (600.0 * kHalf));
  const double sd_v = std::sqrt(kv.rightCols(kHalf).squaredNorm() / (600.0 * kHalf));
  Eigen::MatrixXd scaled = kv;
  scaled.leftCols(kHalf) /= sd_k;
  scaled.rightCols(kHalf) /= sd_v;
  // Ridge by an augmented least squares problem, cut to its rank by the singular values of its predictions.
  const Eigen::MatrixXd gram = a.transpose() * a;
  const Eigen::MatrixXd ridge = gram + kLambda * gram.diagonal().mean() * Eigen::MatrixXd::Identity(kIn, kIn);
  const Eigen::MatrixXd map = ridge.llt().solve(a.transpose() * scaled);
  for (const std::int64_t rank : {2, 6, 10}) {
    const FusedLinear fit = FitFusedLinear(rows.moments, 1, rank, kLambda).value();
    ASSERT_EQ(fit.spreads.size(), 2u);
    EXPECT_NEAR(fit.spreads[0], sd_k, 1e-4 * sd_k);
    EXPECT_NEAR(fit.spreads[1], sd_v, 1e-4 * sd_v);
    const Eigen::MatrixXd basis =
        Eigen::BDCSVD<Eigen::MatrixXd>(a * map, Eigen::ComputeThinV).matrixV().leftCols(rank);
    Eigen::MatrixXd expected = map * basis * basis.transpose();
    expected.leftCols(kHalf) *= sd_k;
    expected.rightCols(kHalf) *= sd_v;
    const Eigen::Map<const RowMajor> encoder(fit.translator.encoder.data(), rank, kIn);
    const Eigen::Map<const RowMajor> decoder(fit.translator.decoder.data(), 2 * kHalf, rank);
    const Eigen::MatrixXd got = (encoder.transpose() * decoder.transpose()).cast<double>();
    EXPECT_LT((got - expected).norm(), 2e-4 * expected.norm()) << rank;
  }
  // Columns beyond the outputs carry nothing.
  const FusedLinear wide = FitFusedLinear(rows.moments, 1, 12, kLambda).value();
  EXPECT_EQ(wide.translator.rank, 12);
  EXPECT_EQ(wide.variances[11], 0.0);
  EXPECT_EQ(wide.Steps(1e-5)[11], 0.0f);
  EXPECT_EQ(wide.translator.encoder.back(), 0.0f);
  EXPECT_EQ(wide.translator.decoder[11], 0.0f);
}

TEST(FusedLinearTest, ColumnsAreUncorrelatedAndTheDecoderIsOrthonormalInItsMetric) {
  LinearRows rows = MakeLinearRows();
  const FusedLinear fit = FitFusedLinear(rows.moments, 1, 2 * kHalf, kLambda).value();
  const Eigen::Map<const RowMajor> encoder(fit.translator.encoder.data(), 2 * kHalf, kIn);
  const Eigen::MatrixXd a = (rows.a.rowwise() - rows.a.colwise().mean()).cast<double>();
  const Eigen::MatrixXd z = a * encoder.transpose().cast<double>();
  const Eigen::MatrixXd covariance = z.transpose() * z / 600.0;
  for (Eigen::Index i = 0; i < covariance.rows(); ++i) {
    EXPECT_NEAR(fit.variances[static_cast<std::size_t>(i)], covariance(i, i), 1e-4 * covariance(0, 0));
    if (i > 0) {
      EXPECT_LE(fit.variances[static_cast<std::size_t>(i)], fit.variances[static_cast<std::size_t>(i - 1)]);
    }
    for (Eigen::Index j = 0; j < i; ++j) EXPECT_NEAR(covariance(i, j), 0.0, 1e-4 * covariance(0, 0));
  }
  Eigen::MatrixXd decoder =
      Eigen::Map<const RowMajor>(fit.translator.decoder.data(), 2 * kHalf, 2 * kHalf).cast<double>();
  const std::vector<float> spread = fit.OutputSpread();
  for (Eigen::Index o = 0; o < decoder.rows(); ++o) decoder.row(o) /= spread[static_cast<std::size_t>(o)];
  EXPECT_LT((decoder.transpose() * decoder - Eigen::MatrixXd::Identity(10, 10)).norm(), 1e-4);
  // So every column that is sent has one and the same step.
  for (const float step : fit.Steps(0.01)) {
    if (step != 0.0f) {
      EXPECT_NEAR(step, std::sqrt(0.12), 1e-4);
    }
  }
}

TEST(FusedWindowTest, EarlierTokensAreThoseOfTheGranuleThatHaveCodes) {
  EXPECT_EQ(ReadableBefore(1, 1), 0);
  EXPECT_EQ(ReadableBefore(2, 1), 1);
  EXPECT_EQ(ReadableBefore(31, 1), 30);
  EXPECT_EQ(ReadableBefore(32, 1), 0);
  EXPECT_EQ(ReadableBefore(33, 1), 1);
  EXPECT_EQ(ReadableBefore(40, 40), 0);
  EXPECT_EQ(ReadableBefore(41, 40), 1);
  EXPECT_EQ(ReadableBefore(64, 40), 0);
  EXPECT_EQ(ReadableBefore(0, 0), 0);
}

TEST(FusedWindowTest, WindowsEqualThoseBuiltTokenByToken) {
  constexpr std::int64_t kRank = 3;
  // Three prefixes, the second in two passes that do not end at a granule.
  struct Row {
    std::int64_t prefix, position;
  };
  std::vector<Row> rows;
  for (const auto& [prefix, length] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 5}, {1, 100}, {2, 33}}) {
    for (std::int64_t p = 1; p < length; ++p) rows.push_back({prefix, p});
  }
  std::vector<std::int64_t> positions;
  std::vector<float> codes;
  const auto code = [](std::int64_t prefix, std::int64_t position, std::int64_t column) {
    return static_cast<float>(1000 * prefix + 10 * position + column);
  };
  for (const Row& row : rows) {
    positions.push_back(row.position);
    for (std::int64_t c = 0; c < kRank; ++c) codes.push_back(code(row.prefix, row.position, c));
  }
  const auto n = static_cast<std::int64_t>(rows.size());
  for (const std::int64_t window : {1, 2, 4}) {
    std::vector<float> expected;
    for (const Row& row : rows) {
      for (std::int64_t w = 0; w < window; ++w) {
        const std::int64_t earlier = row.position - w;
        const bool readable = earlier >= 1 && earlier / 32 == row.position / 32;
        for (std::int64_t c = 0; c < kRank; ++c) {
          expected.push_back(readable ? code(row.prefix, earlier, c) / 2 : 0.0f);
        }
      }
    }
    std::vector<float> x(expected.size());
    FillWindows(MatrixView(codes.data(), n, kRank), positions, 1, 0, 2.0f,
                MatrixView(x.data(), n, window * kRank));
    EXPECT_EQ(x, expected) << window;
    // A block from the middle is the same rows.
    std::vector<float> block(static_cast<std::size_t>(50 * window * kRank));
    FillWindows(MatrixView(codes.data(), n, kRank), positions, 1, 20, 2.0f,
                MatrixView(block.data(), 50, window * kRank));
    EXPECT_THAT(block, ElementsAreArray(expected.begin() + 20 * window * kRank,
                                        expected.begin() + 70 * window * kRank));
  }
}

// A store of made-up rows: H_A of the producer; H_B of the consumer, a bent function of H_A of this token and
// of the one before it in its granule; K and V by the consumer's own product.
class FusedFitTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kLayer = 2;
  static constexpr std::int64_t kHidden = 64;
  static constexpr std::int64_t kFactors = 6;

  void SetUp() override {
    shape_ = run_.shape({kLayer - 1, kLayer});
    store_ = TraceStore::Open(run_.File("rows"), shape_, {}).value();
    Backend& backend = run_.loaded().consumer->backend();
    stream_ = backend.CreateStream().value();
    producer_ = TraceTap::Create(backend, shape_, kTokens).value();
    consumer_ = TraceTap::Create(backend, shape_, kTokens).value();
    for (std::int64_t prefix = 0; prefix < 40; ++prefix) AddPrefix(prefix);
  }

  void AddPrefix(std::int64_t prefix) {
    const RowMajor factors = Uniform(kTokens, kFactors, random_);
    RowMajor h_a = factors * embed_;
    const RowMajor bent = 2.0f * factors.cwiseProduct(factors) * bend_;
    const RowMajor earlier = factors * look_back_;
    RowMajor h_b = factors * linear_ + bent;
    for (std::int64_t t = 1; t < kTokens; ++t) {
      if (t % 32 != 0 && t > 1) h_b.row(t) += earlier.row(t - 1);
    }
    RowMajor kv(kTokens, 2 * shape_.d_kv);
    Backend& backend = run_.loaded().consumer->backend();
    const TensorView out = View(kv);
    ASSERT_TRUE(ProjectKv(backend, *stream_, run_.loaded().consumer->kv_projection(kLayer), View(h_b),
                          out.columns(0, shape_.d_kv), out.columns(shape_.d_kv, shape_.d_kv))
                    .ok());
    for (std::int64_t layer = 0; layer < shape_.num_layers; ++layer) {
      const LayerView seen{.layer = layer,
                           .stream = stream_.get(),
                           .k_pre_rope = out.columns(0, shape_.d_kv),
                           .v = out.columns(shape_.d_kv, shape_.d_kv),
                           .attention_input = View(h_a),
                           .residual = {}};
      ASSERT_TRUE(producer_->OnLayer(seen).ok());
      LayerView other = seen;
      other.attention_input = View(h_b);
      ASSERT_TRUE(consumer_->OnLayer(other).ok());
    }
    ASSERT_TRUE(
        store_
            ->Append(
                {.prefix = prefix, .first_position = 1, .rows = kTokens - 1, .held_out = prefix % 10 == 9},
                *producer_, *consumer_, 1)
            .ok());
  }

  static FusedOptions Options(std::int64_t window) {
    return {.rank = 32,
            .window = window,
            .training = {.mlp_width = 128,
                         .max_epochs = 30,
                         .batch_rows = 64,
                         .learning_rate = 3e-3,
                         .weight_decay = 0.0,
                         .patience = 10,
                         .seed = 1}};
  }
  FusedGroup Fit(const FusedOptions& options, std::int64_t first = kLayer) {
    const auto math = HostMath::Create(1).value();
    double progress = 0;
    FusedGroup fit = FitFused(*math, *store_, *run_.loaded().consumer, {.first = first, .last = kLayer},
                              options, run_.File("work"), {},
                              [&](double fraction) {
                                EXPECT_GE(fraction, progress);
                                progress = fraction;
                              })
                         .value();
    EXPECT_EQ(progress, 1.0);
    return fit;
  }

  static constexpr std::int64_t kTokens = 100;
  TinyRun run_;
  TraceShape shape_;
  std::unique_ptr<TraceStore> store_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<TraceTap> producer_, consumer_;
  std::mt19937 random_{11};
  const RowMajor embed_ = Uniform(kFactors, kHidden, random_);
  const RowMajor linear_ = Uniform(kFactors, kHidden, random_);
  const RowMajor bend_ = Uniform(kFactors, kHidden, random_);
  const RowMajor look_back_ = 0.5f * Uniform(kFactors, kHidden, random_);
};

TEST_F(FusedFitTest, TheNetworkFindsWhatTheLinearMapCannotAndThePastHelps) {
  const FusedGroup one = Fit(Options(1));
  ASSERT_EQ(one.each.size(), 1u);
  EXPECT_LT(one.each[0].plain.full, 0.9 * one.each[0].plain.linear);
  EXPECT_EQ(one.each[0].network.in, 32);
  const FusedGroup two = Fit(Options(2));
  EXPECT_LT(two.each[0].plain.full, 0.85 * one.each[0].plain.full);
  EXPECT_EQ(two.each[0].network.in, 64);
  // The linear part does not depend on it.
  EXPECT_EQ(two.linear.translator.encoder, one.linear.translator.encoder);
  EXPECT_EQ(two.each[0].encoder, two.linear.translator.encoder);
  EXPECT_EQ(two.each[0].coded.full, two.each[0].plain.full);
}

TEST_F(FusedFitTest, RoundedCodesCostAboutTheirDistortion) {
  FusedOptions options = Options(2);
  options.distortion = 0.02;
  const FusedGroup rounded = Fit(options);
  const FusedErrors &plain = rounded.each[0].plain, &coded = rounded.each[0].coded;
  EXPECT_GT(coded.full, plain.full);
  // At most `distortion` in each of the columns that carry anything, over all outputs' unit variances.
  const double bound = plain.linear * plain.linear + options.distortion * kFactors / 32;
  EXPECT_LT(coded.linear * coded.linear, 1.1 * bound);
  std::int64_t sent = 0;
  for (const float step : rounded.linear.Steps(options.distortion)) sent += step > 0 ? 1 : 0;
  EXPECT_GE(sent, kFactors - 1);
  EXPECT_LE(sent, kFactors);
}

TEST_F(FusedFitTest, TheDecoderIsFittedToRoundedCodes) {
  FusedOptions options = Options(1);
  options.training.mlp_width = 0;
  const FusedGroup plain = Fit(options);
  // So coarse that columns shrink.
  options.distortion = 0.5;
  options.refit_decoder = true;
  const FusedGroup refitted = Fit(options);
  EXPECT_EQ(refitted.linear.translator.encoder, plain.linear.translator.encoder);
  EXPECT_EQ(refitted.linear.weights, plain.linear.weights);
  EXPECT_EQ(refitted.linear.Steps(0.5), plain.linear.Steps(0.5));
  // Against the same codes decoded by the decoder that they were made for.
  const auto math = HostMath::Create(1).value();
  double before = 0, after = 0;
  for (const TracePiece& piece : store_->pieces()) {
    if (!piece.held_out) continue;
    std::vector<float> h, k, v;
    ASSERT_TRUE(store_->ReadHidden(piece, kLayer, PairSide::kProducer, &h).ok());
    ASSERT_TRUE(store_->ReadK(piece, kLayer, PairSide::kConsumer, &k).ok());
    ASSERT_TRUE(store_->ReadV(piece, kLayer, PairSide::kConsumer, &v).ok());
    RowMajor z(piece.rows, 32), kv(piece.rows, 32);
    const AffineTranslator& encoder = plain.linear.translator;
    ASSERT_TRUE(EncodeRows(*math, encoder, 32, MatrixView(h.data(), piece.rows, kHidden), View(z)).ok());
    RoundToSteps(plain.linear.Steps(0.5), View(z));
    for (const FusedGroup* fit : {&plain, &refitted}) {
      ASSERT_TRUE(DecodeRows(*math, fit->linear.translator, 32, View(z), View(kv)).ok());
      double& sum = fit == &plain ? before : after;
      for (std::int64_t r = 0; r < piece.rows; ++r) {
        for (std::int64_t c = 0; c < 16; ++c) {
          const auto i = static_cast<std::size_t>(r * 16 + c);
          sum += std::pow((kv(r, c) - k[i]) / plain.linear.spreads[0], 2);
          sum += std::pow((kv(r, c + 16) - v[i]) / plain.linear.spreads[1], 2);
        }
      }
    }
  }
  EXPECT_LT(after, 0.995 * before);
}

TEST_F(FusedFitTest, AGroupSharesOneCodeOfAllItsInputs) {
  FusedOptions options = Options(1);
  options.training.mlp_width = 0;
  options.rank = 64;
  options.group = 2;
  const FusedGroup both = Fit(options, kLayer - 1);
  ASSERT_EQ(both.each.size(), 2u);
  EXPECT_EQ(both.linear.translator.in, 2 * kHidden);
  EXPECT_EQ(both.linear.translator.out, 64);
  EXPECT_EQ(both.linear.spreads.size(), 4u);
  // In the store both layers have the same rows, so that half of the columns carry nothing, and each layer's
  // share of the encoder is the same.
  std::int64_t sent = 0;
  for (const float step : both.linear.Steps(1e-3)) sent += step > 0 ? 1 : 0;
  EXPECT_LE(sent, kFactors);
  for (std::size_t i = 0; i < both.each[0].encoder.size(); ++i) {
    ASSERT_NEAR(both.each[0].encoder[i], both.each[1].encoder[i], 1e-3);
    const std::size_t row = i / kHidden, column = i % kHidden;
    ASSERT_EQ(both.each[1].encoder[i], both.linear.translator.encoder[row * 2 * kHidden + kHidden + column]);
  }
  // Nothing is lost against the layer alone.
  options.rank = 32;
  options.group = 1;
  const FusedGroup alone = Fit(options);
  EXPECT_NEAR(both.each[1].plain.linear, alone.each[0].plain.linear, 0.02 * alone.each[0].plain.linear);
}

TEST_F(FusedFitTest, CuttingKeepsTheFirstColumns) {
  FusedGroup cut = Fit(Options(2));
  const FusedGroup whole = cut;
  CutRank(10, &cut);
  EXPECT_EQ(cut.linear.translator.rank, 10);
  EXPECT_EQ(cut.each[0].network.in, 20);
  EXPECT_EQ(cut.each[0].encoder.size(), 10u * kHidden);
  EXPECT_EQ(cut.linear.translator.encoder_bias.size(), 10u);
  EXPECT_EQ(cut.linear.variances.size(), 10u);
  for (std::size_t r : {0u, 7u, 31u}) {
    for (std::size_t c = 0; c < 10; ++c) {
      EXPECT_EQ(cut.linear.translator.decoder[r * 10 + c], whole.linear.translator.decoder[r * 32 + c]);
      EXPECT_EQ(cut.each[0].network.mlp_in[r * 20 + c], whole.each[0].network.mlp_in[r * 64 + c]);
      EXPECT_EQ(cut.each[0].network.mlp_in[r * 20 + 10 + c], whole.each[0].network.mlp_in[r * 64 + 32 + c]);
    }
  }
}

TEST_F(FusedFitTest, NoEpochsLeaveTheLinearMap) {
  FusedOptions options = Options(1);
  options.training.max_epochs = 0;
  const FusedGroup fit = Fit(options);
  EXPECT_EQ(fit.each[0].plain.full, fit.each[0].plain.linear);
}

TEST_F(FusedFitTest, AStopEndsIt) {
  std::stop_source stop;
  stop.request_stop();
  const auto math = HostMath::Create(1).value();
  EXPECT_TRUE(
      absl::IsCancelled(FitFused(*math, *store_, *run_.loaded().consumer, {.first = kLayer, .last = kLayer},
                                 Options(1), run_.File("work"), stop.get_token(), [](double) {})
                            .status()));
}

TEST_F(FusedFitTest, LayersWhoseInputsWereNotKeptAreRefused) {
  const auto math = HostMath::Create(1).value();
  EXPECT_FALSE(FitFused(*math, *store_, *run_.loaded().consumer, {.first = 0, .last = 0}, Options(1),
                        run_.File("work"), {}, [](double) {})
                   .ok());
}

}  // namespace
}  // namespace scd
