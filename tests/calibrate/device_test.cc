// Calibration with `device: cuda`, on the cuda backend that is compiled for the CPU
// (tests/support/cuda_shim): what the device adds up is as good as what the host does, and a bundle is the
// same whichever made it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibrate/calibration.h"
#include "calibrate/device_memory.h"
#include "calibrate/pair_moments.h"
#include "common/bundle/bundle.h"
#include "common/config/yaml_document.h"
#include "tests/calibrate/tiny_run.h"

namespace scd {
namespace {

using testing::CollectingLog;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

BackendOptions Shim() {
  return {.device = "cuda",
          .num_threads = 2,
          .math = MathMode::kF32,
          .cuda = {.plugin = SCD_CUDA_SHIM, .scratch_mib = 1}};
}

std::vector<float> Normal(std::int64_t count, std::uint32_t seed, float offset = 0.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& value : out) value = offset + normal(random);
  return out;
}

class DeviceMathTest : public ::testing::Test {
 protected:
  // Every product that may go to the device does.
  std::unique_ptr<HostMath> OnDevice() {
    return HostMath::Create(1, {.backend = backend_.get(), .least_flops_per_byte = 0.0}).value();
  }

  const std::unique_ptr<Backend> backend_ = CreateMathBackend(Shim()).value();
  const std::unique_ptr<HostMath> host_ = HostMath::Create(1).value();
};

TEST_F(DeviceMathTest, NoDeviceWhereTheModelsRunOnTheCpu) {
  EXPECT_EQ(CreateMathBackend({.device = "cpu"}).value(), nullptr);
  EXPECT_EQ(host_->device(), nullptr);
  EXPECT_NE(OnDevice()->device(), nullptr);
}

TEST_F(DeviceMathTest, ProductsOfHostMemoryAreTheSame) {
  const auto device = OnDevice();
  constexpr std::int64_t kM = 33, kN = 20, kK = 47, kWide = 60;
  const std::vector<float> a = Normal(kWide * kWide, 1), b = Normal(kWide * kWide, 2);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      // Columns of wider matrices.
      const ConstTensorView av = MatrixView(a.data(), ta ? kK : kM, kWide).columns(3, ta ? kM : kK);
      const ConstTensorView bv = MatrixView(b.data(), tb ? kN : kK, kWide).columns(5, tb ? kK : kN);
      const GemmOptions options{
          .transpose_a = ta, .transpose_b = tb, .alpha = 0.5f, .beta = ta ? 2.0f : 0.0f};
      std::vector<float> want = Normal(kM * kWide, 3), got = want;
      ASSERT_TRUE(host_->Gemm(av, bv, MatrixView(want.data(), kM, kWide).columns(7, kN), options).ok());
      ASSERT_TRUE(device->Gemm(av, bv, MatrixView(got.data(), kM, kWide).columns(7, kN), options).ok());
      EXPECT_THAT(got, Pointwise(FloatNear(1e-4f), want));
    }
  }
  std::vector<float> c(4);
  EXPECT_EQ(
      device->Gemm(MatrixView(a.data(), 2, 3), MatrixView(b.data(), 2, 2), MatrixView(c.data(), 2, 2)).code(),
      absl::StatusCode::kInvalidArgument);
}

double LargestDifference(const Matrix& a, const Matrix& b) {
  double largest = 0, scale = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    largest = std::max(largest, std::abs(a.values[i] - b.values[i]));
    scale = std::max(scale, std::abs(b.values[i]));
  }
  return largest / scale;
}

// Twice the rows that are added up in f32, far from zero, by workers in turns.
TEST_F(DeviceMathTest, MomentsHaveTheAccuracyOfTheHosts) {
  constexpr std::int64_t kRows = 2 * DeviceSums::kMostRows + 777, kDimA = 24, kDimB = 18;
  const std::vector<float> a = Normal(kRows * kDimA, 4, 100.0f);
  std::vector<float> b = Normal(kRows * kDimB, 5, -30.0f);
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t i = 0; i < kDimB; ++i) {
      b[static_cast<std::size_t>(r * kDimB + i)] += 2.0f * a[static_cast<std::size_t>(r * kDimA + i)];
    }
  }
  const auto first = OnDevice();
  const auto second = OnDevice();
  PairMoments on_host(kDimA, kDimB, true), on_device(kDimA, kDimB, true);
  std::int64_t turn = 0;
  for (std::int64_t begin = 0; begin < kRows; begin += 700, ++turn) {
    const std::int64_t count = std::min<std::int64_t>(700, kRows - begin);
    const ConstTensorView av = MatrixView(a.data(), kRows, kDimA).rows(begin, count);
    const ConstTensorView bv = MatrixView(b.data(), kRows, kDimB).rows(begin, count);
    ASSERT_TRUE(on_host.Add(*host_, av, bv).ok());
    ASSERT_TRUE(on_device.Add(turn % 2 == 0 ? *first : *second, av, bv).ok());
  }
  const Moments want = on_host.Finish().value();
  for (int settled = 0; settled < 2; ++settled) {
    const Moments got = on_device.Finish().value();
    EXPECT_EQ(got.count, kRows);
    EXPECT_EQ(got.mean_a, want.mean_a);
    EXPECT_EQ(got.mean_b, want.mean_b);
    EXPECT_LT(LargestDifference(got.aa, want.aa), 1e-6);
    EXPECT_LT(LargestDifference(got.ab, want.ab), 1e-6);
    EXPECT_LT(LargestDifference(got.bb, want.bb), 1e-6);
    // What is kept says the same, and can be gone on from without a device.
    std::vector<double> state(static_cast<std::size_t>(on_device.num_state_values()));
    ASSERT_TRUE(on_device.SaveState(absl::MakeSpan(state)).ok());
    PairMoments kept(kDimA, kDimB, true);
    kept.LoadState(state);
    EXPECT_LT(LargestDifference(kept.Finish().value().ab, got.ab), 1e-12);
    ASSERT_TRUE(on_device.Settle(*first).ok());
  }
}

TEST_F(DeviceMathTest, TrainingIsTheSame) {
  constexpr std::int64_t kRows = 200, kIn = 6, kOut = 3;
  const std::vector<float> x = Normal(kRows * kIn, 6), y = Normal(kRows * kOut, 7);
  const AlignerRows rows{MatrixView(x.data(), kRows, kIn), MatrixView(y.data(), kRows, kOut)};
  const AlignerTraining training{.mlp_width = 16, .max_epochs = 2, .batch_rows = 50, .seed = 5};
  const auto train = [&](HostMath& math) {
    return TrainAligner(math, rows, rows, training, {}, [](std::int64_t, std::int64_t) {}).value();
  };
  const TrainedAligner want = train(*host_), got = train(*OnDevice());
  EXPECT_LT(want.held_out_loss, want.held_out_loss_before);
  EXPECT_NEAR(got.held_out_loss, want.held_out_loss, 1e-6);
  EXPECT_THAT(got.mlp.parameters(), Pointwise(FloatNear(1e-4f), want.mlp.parameters()));
}

// As a configuration file with these lines gives it.
absl::StatusOr<CalibrateConfig> Read(const std::string& more) {
  const auto document = YamlDocument::Parse(
      "producer: {path: a}\nconsumer: {path: b}\noutput: out\nwork_dir: work\n" + more, "calibrate.yaml");
  if (!document.ok()) return document.status();
  YamlReader reader(*document);
  CalibrateConfig config;
  ReadCalibrateConfig(reader.root(), &config);
  if (const absl::Status status = reader.Finish(); !status.ok()) return status;
  return config;
}

class DeviceRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::WriteTinyModel(dir_.File("producer"), 0.0f);
    testing::WriteTinyModel(dir_.File("consumer"), 0.1f);
    testing::WriteFile(dir_.File("corpus.jsonl"), testing::RandomIdsJsonl(24, 40, 9));
  }

  CalibrateConfig Config(const BackendOptions& backend, const std::string& name) const {
    CalibrateConfig config = Read("").value();
    config.producer.path = dir_.File("producer");
    config.consumer.path = dir_.File("consumer");
    config.output = dir_.File(name + "/bundle");
    config.work_dir = dir_.File(name + "/work");
    config.backend = backend;
    config.corpus.sources = {{.kind = CorpusSourceKind::kJsonl, .path = dir_.File("corpus.jsonl")}};
    config.corpus.hold_out_every = 6;
    config.native_tail = 4;
    config.ranks = {.k = 8, .v = 8, .h = {32}};
    config.patch.candidates = {1, 2};
    config.patch.count = 1;
    config.aligner = {.mlp_width = 32, .max_epochs = 1};
    config.selective.prefixes = 1;
    config.selective.sizes = std::vector<std::int64_t>{2};
    config.entropy.distortions = {0.05};
    config.entropy.default_distortion = 0.05;
    config.measure = {.sweep_prefixes = 2, .quality_prefixes = 4, .scored_tokens = 8};
    config.trace = {.pass_tokens = 128, .checkpoint_prefixes = 4, .scratch_dtype = DType::kF32};
    return config;
  }

  absl::Status Run(const CalibrateConfig& config, std::stop_token stop = {}) {
    log_.text.clear();
    return RunCalibration(config, log_, {.first_after_s = 1e9}, std::move(stop)).status();
  }

  const testing::TempDir dir_;
  CollectingLog log_;
};

const BackendOptions kCpu{.device = "cpu", .num_threads = 2, .math = MathMode::kF32};

// decoder encoder: what does not depend on how a latent space is turned.
template <typename Translator>
std::vector<float> Map(const Translator& t) {
  std::vector<float> out(static_cast<std::size_t>(t.decoder.dim(0) * t.encoder.dim(1)));
  const auto math = HostMath::Create(1).value();
  EXPECT_TRUE(
      math->Gemm(t.decoder, t.encoder, MatrixView(out.data(), t.decoder.dim(0), t.encoder.dim(1))).ok());
  return out;
}

TEST_F(DeviceRunTest, TheBundleIsTheSame) {
  ASSERT_TRUE(Run(Config(kCpu, "cpu")).ok());
  const absl::Status status = Run(Config(Shim(), "cuda"));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(log_.text, HasSubstr("backend: cuda: "));
  const auto cpu = Bundle::Open(dir_.File("cpu/bundle")).value();
  const auto cuda = Bundle::Open(dir_.File("cuda/bundle")).value();
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    for (const CodeKind kind : {CodeKind::kK, CodeKind::kV}) {
      EXPECT_THAT(Map(cuda->Reuse(layer, kind, 8).value()),
                  Pointwise(FloatNear(2e-4f), Map(cpu->Reuse(layer, kind, 8).value())))
          << layer;
    }
  }
  for (const std::int64_t layer : {1, 2}) {
    const PatchTranslator want = cpu->Patch(layer, 32).value(), got = cuda->Patch(layer, 32).value();
    EXPECT_THAT(Map(got), Pointwise(FloatNear(2e-3f), Map(want))) << layer;
  }
  const HeldOutQuality &want = cpu->manifest().quality, &got = cuda->manifest().quality;
  EXPECT_NEAR(got.kl_reuse, want.kl_reuse, 1e-3 * want.kl_reuse);
  EXPECT_NEAR(got.kl_scd, want.kl_scd, 1e-3 * want.kl_scd);
  EXPECT_NEAR(got.kl_fused, want.kl_fused, 1e-2 * want.kl_fused);
  EXPECT_NEAR(got.ppl_native, want.ppl_native, 1e-4 * want.ppl_native);
  EXPECT_EQ(cuda->manifest().default_patch_layers, cpu->manifest().default_patch_layers);
}

// Stops once the log says that the corpus is there; what was done until then is at least one checkpoint.
class StoppingLog final : public Log {
 public:
  explicit StoppingLog(std::string word) : word_(std::move(word)) {}
  void Write(LogLevel, std::string_view message) override {
    if (message.find(word_) != std::string_view::npos) stop_.request_stop();
  }
  std::stop_token token() const { return stop_.get_token(); }

 private:
  const std::string word_;
  std::stop_source stop_;
};

TEST_F(DeviceRunTest, AnotherDeviceDoesNotGoOnWithTheRowsOfTheFirst) {
  StoppingLog stopping("rows to fit on");
  const CalibrateConfig on_device = Config(Shim(), "run");
  EXPECT_EQ(RunCalibration(on_device, stopping, {.first_after_s = 1e9}, stopping.token()).status().code(),
            absl::StatusCode::kCancelled);
  CalibrateConfig on_cpu = on_device;
  on_cpu.backend = kCpu;
  const absl::Status refused = Run(on_cpu);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(),
              HasSubstr("24 of 24 prefixes were computed by \"cuda, products in f32\", this "
                        "run computes by \"cpu, products in f32\""));
  // Nothing was lost, and how many threads there are does not matter.
  CalibrateConfig other_threads = on_device;
  other_threads.backend.num_threads = 1;
  const absl::Status status = Run(other_threads);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(log_.text, HasSubstr("traces: 24 of 24 prefixes were done by an earlier run"));
}

TEST_F(DeviceRunTest, TheModelsWriteTheirOwnPrefixesThere) {
  testing::WriteFile(dir_.File("seeds.txt"), "The city\nA river\nOne day\n");
  CalibrateConfig config = Config(Shim(), "own");
  config.corpus.sources = {
      {.kind = CorpusSourceKind::kSelfSample, .path = dir_.File("seeds.txt"), .limit = 4, .num_tokens = 30}};
  config.corpus.hold_out_every = 2;
  config.patch.layers = std::vector<std::int64_t>();
  config.patch.candidates.reset();
  config.fused.rank = 0;
  config.entropy.distortions.clear();
  const absl::Status status = Run(config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(log_.text, HasSubstr("bundle "));
}

TEST(DeviceConfigTest, TheSectionCudaIsThatOfTheDaemonsButTakesNoMemoryAtTheStart) {
  const BackendOptions backend =
      Read("device: cuda\ncuda: {plugin: lib.so, device: 2, memory_mib: 0, scratch_mib: 64}\n")->backend;
  EXPECT_EQ(backend.device, "cuda");
  EXPECT_EQ(backend.cuda.plugin, "lib.so");
  EXPECT_EQ(backend.cuda.device, 2);
  EXPECT_EQ(backend.cuda.scratch_mib, 64);
  EXPECT_THAT(Read("cuda: {memory_mib: auto}\n").status().message(),
              HasSubstr("cuda.memory_mib: stages of a calibration"));
}

TEST_F(DeviceRunTest, CheckingSaysWhyThereIsNoDevice) {
  EXPECT_TRUE(CheckCalibration(Config(Shim(), "check")).ok());
  BackendOptions absent = Shim();
  absent.cuda.plugin = dir_.File("none.so");
  for (const absl::Status& status :
       {CheckCalibration(Config(absent, "check")), Run(Config(absent, "check"))}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("device cuda is not possible: there is no "));
  }
}

ModelConfig SevenB() {
  ModelConfig model;
  model.num_layers = 32;
  model.hidden_size = 4096;
  model.intermediate_size = 14336;
  model.num_heads = 32;
  model.num_kv_heads = 8;
  model.head_dim = 128;
  model.vocab_size = 32000;
  return model;
}

TEST(DeviceMemoryTest, OfASevenBPair) {
  CalibrateConfig config;
  config.backend = {.device = "cuda", .num_threads = 1};
  ASSERT_TRUE(ResolveForModel(SevenB(), &config).ok());
  const DeviceMemory memory = DeviceMemoryOf(config, SevenB());
  constexpr std::int64_t kMib = 1 << 20;
  EXPECT_NEAR(static_cast<double>(memory.models_bytes), 2 * 7.24e9 * 2, 1e8);
  EXPECT_EQ(memory.traces_bytes, 32 * 2 * 3 * 4 * kMib);
  // A group of five: inputs 20480 wide, K and V 10240.
  EXPECT_EQ(memory.fits_bytes, std::int64_t{4} * (20480 * 20480 + 20480 * 10240 + 10240 * 10240));
  EXPECT_EQ(memory.peak_bytes(), memory.models_bytes + memory.fits_bytes);
}

TEST(DeviceMemoryTest, TooMuchIsRefusedWithItsParts) {
  const auto backend = CreateMathBackend(Shim()).value();
  EXPECT_TRUE(CheckDeviceMemory(*backend, {.models_bytes = 1 << 20}).ok());
  const absl::Status status = CheckDeviceMemory(
      *backend, {.models_bytes = std::int64_t{1} << 60, .traces_bytes = 1 << 20, .fits_bytes = 1 << 21});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("then traces 2 or fits 3, whichever is more"));
}

}  // namespace
}  // namespace scd
