// What of rebuilding on the cuda backend may run at the same time: its order on the device is looked at, as
// it was queued, on the backend that is compiled for the CPU.
#include <algorithm>
#include <cstring>

#include "common/model/model_source.h"
#include "consumer/rebuilder_cache.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "tests/support/cuda_shim/runtime.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

using cuda_shim::OperationLog;
using cuda_shim::OpKind;

constexpr std::int64_t kTokens = 20;
constexpr int kCodes = 8;  // twice as many as may be on their way to the device

class CudaOverlapTest : public ::testing::Test {
 protected:
  // What rebuilding works with on one backend.
  struct Side {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Transformer> transformer;
    std::unique_ptr<Stream> stream;
    std::unique_ptr<PagedKvCache> cache;
    std::unique_ptr<Sequence> sequence;
    std::unique_ptr<RebuilderCache> rebuilders;
  };

  void SetUp() override {
    model_ = *OpenModel({testing::TestDataPath("tiny-llama"), "", ""});
    const BundleModel side = testing::MadeUpModel("side");
    ASSERT_TRUE(testing::WriteTinyBundle(dir_.File("bundle"), model_->config, side, side).ok());
    bundle_ = *Bundle::Open(dir_.File("bundle"));
  }

  Side MakeSide(const BackendOptions& options) {
    Side side;
    side.backend = *CreateBackend(options);
    side.transformer = *Transformer::Create(model_->config, *model_->weights, *side.backend);
    side.stream = *side.backend->CreateStream();
    const ModelConfig& config = model_->config;
    side.cache = *PagedKvCache::Create(*side.backend,
                                       {config.num_layers, config.num_kv_heads, config.head_dim, 16}, 16);
    side.sequence = *Sequence::Create(*side.cache, kCodes * kTokens);
    side.rebuilders = std::make_unique<RebuilderCache>(*bundle_, *side.transformer, 2);
    return side;
  }

  // Number `index` of a row of codes of layer 0.
  LayerCode Code(const LayerPlan& plan, int index) const {
    LayerCode code{.layer = 0,
                   .kind = CodeKind::kK,
                   .first_token = index * kTokens,
                   .num_tokens = kTokens,
                   .rank = plan.layers[0].rank_k,
                   .codec = plan.codec,
                   .payload = {}};
    for (std::int64_t i = 0; i < kTokens * code.rank; ++i) {
      const std::uint16_t value = FloatToBf16(0.01f * static_cast<float>((i * 37 + index * 11) % 200 - 100));
      code.payload.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    return code;
  }

  // Rebuilds all codes one behind the other, and waits once.
  void Rebuild(Side& side) {
    const LayerPlan plan = *bundle_->ResolvePlan({.rank_k = 4});
    for (int i = 0; i < kCodes; ++i) {
      const LayerCode code = Code(plan, i);  // goes away before anything was copied
      const absl::Status status = side.rebuilders->Rebuild(plan, code, *side.sequence, *side.stream);
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  // The pages of layer 0 that were written, brought to the host.
  std::vector<float> Pages(Side& side) {
    const TensorView pages = side.cache->k_pages(0);
    std::vector<float> values(static_cast<std::size_t>(pages.num_elements()));
    EXPECT_TRUE(side.backend->Synchronize(*side.stream).ok());
    const TensorView host(values.data(), DType::kF32, pages.shape(), Device::kHost);
    if (side.backend->device() == Device::kHost) {
      std::memcpy(values.data(), pages.data(), values.size() * sizeof(float));
    } else {
      EXPECT_TRUE(side.backend->Copy(*side.stream, host, pages).ok());
    }
    values.resize(static_cast<std::size_t>(pages.num_elements() / 16 * (kCodes * kTokens / 16)));
    return values;
  }

  testing::TempDir dir_;
  absl::StatusOr<Model> model_ = absl::UnknownError("not opened");
  std::unique_ptr<Bundle> bundle_;
};

BackendOptions CudaOptions() {
  return {.device = "cuda",
          .math = MathMode::kF32,
          .cuda = {.plugin = SCD_CUDA_SHIM, .memory_mib = 64, .scratch_mib = 1}};
}

TEST_F(CudaOverlapTest, CodesArriveWhileThoseBeforeAreRebuilt) {
  Side side = MakeSide(CudaOptions());
  ASSERT_TRUE(side.rebuilders->Prepare(*bundle_->ResolvePlan({.rank_k = 4})).ok());
  cuda_shim::StartLog();
  Rebuild(side);
  const OperationLog log = cuda_shim::TakeLog();
  // Nobody waited for a stream: at most for a slot of the ring.
  EXPECT_TRUE(log.synchronized.empty());
  // Each code has one copy of positions and one of numbers. Those of the next code wait for no kernel of the
  // one before; those of the fifth wait for the first, whose slot they take.
  std::vector<std::size_t> copies;
  std::vector<std::size_t> kernels;  // the last one queued before each copy
  std::size_t last_kernel = log.ops.size();
  for (std::size_t i = 0; i < log.ops.size(); ++i) {
    if (log.ops[i].kind == OpKind::kKernel) last_kernel = i;
    if (log.ops[i].kind != OpKind::kCopyToDevice) continue;
    copies.push_back(i);
    kernels.push_back(last_kernel);
  }
  ASSERT_EQ(copies.size(), 2u * kCodes);
  for (std::size_t i = 2; i < copies.size(); ++i) {
    const OperationLog::Op* const just_before = &log.ops[kernels[i]];
    EXPECT_FALSE(log.Follows(copies[i], [&](const auto& op) { return &op == just_before; })) << i;
    const bool waits = log.Follows(copies[i], [](const auto& op) { return op.kind == OpKind::kKernel; });
    EXPECT_EQ(waits, i >= 8) << i;
  }
  // Kernels wait for the copies that they read.
  const auto arrives = [](const OperationLog::Op& op) { return op.kind == OpKind::kCopyToDevice; };
  EXPECT_TRUE(log.Follows(last_kernel, arrives));
}

TEST_F(CudaOverlapTest, PagesAreThoseOfAHost) {
  Side cuda = MakeSide(CudaOptions());
  Side reference = MakeSide({.device = "reference"});
  Rebuild(cuda);
  Rebuild(reference);
  const std::vector<float> expected = Pages(reference);
  const std::vector<float> actual = Pages(cuda);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-4) << i;
}

}  // namespace
}  // namespace scd
