// Fused translators: the closed form against another way to compute it, and whole fits of rows whose relation
// is known.
#include "calibrate/fused_fit.h"

#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "calibrate/trace_tap.h"
#include "kernels/kv_projection.h"
#include "tests/calibrate/tiny_run.h"

namespace scd {
namespace {

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

// A store of made-up rows: H_A of the producer; H_B of the consumer, a bent function of H_A; K and V by the
// consumer's own product.
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
    RowMajor h_b = factors * linear_ + bent;
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

  FusedGroup Fit(const FusedOptions& options, std::int64_t first = kLayer) {
    const auto math = HostMath::Create(1).value();
    double progress = 0;
    FusedGroup fit =
        FitFused(*math, *store_, *run_.loaded().consumer, {.first = first, .last = kLayer}, options, {},
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
};

TEST_F(FusedFitTest, RoundedCodesCostAboutTheirDistortion) {
  const FusedGroup rounded = Fit({.rank = 32, .distortion = 0.02});
  ASSERT_EQ(rounded.each.size(), 1u);
  EXPECT_EQ(rounded.each[0].encoder, rounded.linear.translator.encoder);
  const double plain = rounded.each[0].plain_error, coded = rounded.each[0].coded_error;
  EXPECT_GT(coded, plain);
  // At most `distortion` in each of the columns that carry anything, over all outputs' unit variances.
  EXPECT_LT(coded * coded, 1.1 * (plain * plain + 0.02 * kFactors / 32));
  std::int64_t sent = 0;
  for (const float step : rounded.linear.Steps(0.02)) sent += step > 0 ? 1 : 0;
  EXPECT_GE(sent, kFactors - 1);
  EXPECT_LE(sent, kFactors);
  const FusedGroup exact = Fit({.rank = 32});
  EXPECT_EQ(exact.each[0].plain_error, plain);
  EXPECT_EQ(exact.each[0].coded_error, plain);
}

TEST_F(FusedFitTest, AGroupSharesOneCodeOfAllItsInputs) {
  FusedOptions options{.rank = 64, .group = 2};
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
  EXPECT_NEAR(both.each[1].plain_error, alone.each[0].plain_error, 0.02 * alone.each[0].plain_error);
}

TEST_F(FusedFitTest, CuttingKeepsTheFirstColumns) {
  FusedGroup cut = Fit({.rank = 32});
  const FusedGroup whole = cut;
  CutRank(10, &cut);
  EXPECT_EQ(cut.linear.translator.rank, 10);
  EXPECT_EQ(cut.each[0].encoder.size(), 10u * kHidden);
  EXPECT_EQ(cut.linear.translator.encoder_bias.size(), 10u);
  EXPECT_EQ(cut.linear.variances.size(), 10u);
  for (std::size_t r : {0u, 7u, 31u}) {
    for (std::size_t c = 0; c < 10; ++c) {
      EXPECT_EQ(cut.linear.translator.decoder[r * 10 + c], whole.linear.translator.decoder[r * 32 + c]);
    }
  }
}

TEST_F(FusedFitTest, AStopEndsIt) {
  std::stop_source stop;
  stop.request_stop();
  const auto math = HostMath::Create(1).value();
  EXPECT_TRUE(
      absl::IsCancelled(FitFused(*math, *store_, *run_.loaded().consumer, {.first = kLayer, .last = kLayer},
                                 {.rank = 32}, stop.get_token(), [](double) {})
                            .status()));
}

TEST_F(FusedFitTest, LayersWhoseInputsWereNotKeptAreRefused) {
  const auto math = HostMath::Create(1).value();
  EXPECT_FALSE(FitFused(*math, *store_, *run_.loaded().consumer, {.first = 0, .last = 0}, {.rank = 32}, {},
                        [](double) {})
                   .ok());
}

}  // namespace
}  // namespace scd
