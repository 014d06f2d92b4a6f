// What of a prefill on the cuda backend may run at the same time: its order on the device is looked at, as it
// was queued, on the backend that is compiled for the CPU.
#include <algorithm>
#include <map>

#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "producer/encoding_tap.h"
#include "tests/producer/producer_rig.h"
#include "tests/support/cuda_shim/runtime.h"

namespace scd::testing {
namespace {

using cuda_shim::OperationLog;
using cuda_shim::OpKind;

class CudaOverlapTest : public ::testing::Test {
 protected:
  CudaOverlapTest() {
    backend_ = *CreateBackend({.device = "cuda",
                               .math = MathMode::kF32,
                               .cuda = {.plugin = SCD_CUDA_SHIM, .memory_mib = 64, .scratch_mib = 1}});
    const Model& model = tiny_.model();
    transformer_ = *Transformer::Create(model.config, *model.weights, *backend_);
    const ModelConfig& config = model.config;
    cache_ =
        *PagedKvCache::Create(*backend_, {config.num_layers, config.num_kv_heads, config.head_dim, 16}, 16);
    workspace_ = *transformer_->CreateWorkspace(64, 0);
    sequence_ = *Sequence::Create(*cache_, 128);
    encoders_ = std::make_unique<EncoderCache>(transformer_->rope(), *backend_, 64, 4);
  }

  // Runs tokens [begin, end) and gives their codes; `log` is of the pass, the packing of codes included.
  CodesByColumn Run(const LayerPlan& plan, std::int64_t begin, std::int64_t end, OperationLog* log) {
    const ReadyEncoder encoder = *encoders_->Get(tiny_.bundle(0), plan);
    CodesByColumn codes;
    EncodingTap tap(encoder, begin, end, 1, [&codes](const LayerCode& code) { Append(codes, code); });
    const auto tokens = absl::MakeConstSpan(tokens_).subspan(static_cast<std::size_t>(begin),
                                                             static_cast<std::size_t>(end - begin));
    const ForwardChunk chunk{.sequence = sequence_.get(), .tokens = tokens, .first_position = begin};
    cuda_shim::StartLog();
    absl::Status status = transformer_->Forward(*workspace_, {&chunk, 1}, {.tap = &tap});
    if (status.ok()) status = tap.Finish();
    *log = cuda_shim::TakeLog();
    EXPECT_TRUE(status.ok()) << status;
    return codes;
  }

  TinyProducer& tiny_ = SharedTinyProducer();
  const std::vector<std::int32_t> tokens_ = TestTokens(100);
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<PagedKvCache> cache_;
  std::unique_ptr<Transformer::Workspace> workspace_;
  std::unique_ptr<Sequence> sequence_;
  std::unique_ptr<EncoderCache> encoders_;
};

// The stream with the kernels.
const CUstream_st* ComputeStream(const OperationLog& log) {
  std::map<const CUstream_st*, int> kernels;
  for (const OperationLog::Op& op : log.ops) kernels[op.stream] += op.kind == OpKind::kKernel;
  return std::max_element(kernels.begin(), kernels.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

TEST_F(CudaOverlapTest, NoLayerWaitsForTheCodesOfAnotherToLeave) {
  for (const Codec codec : {Codec::kBF16, Codec::kF32, Codec::kInt8}) {
    const LayerPlan plan = tiny_.Plan(codec);
    sequence_ = *Sequence::Create(*cache_, 128);
    for (const auto& [begin, end] : {std::pair{0, 40}, {40, 100}}) {
      OperationLog log;
      const CodesByColumn codes = Run(plan, begin, end, &log);
      EXPECT_FALSE(codes.empty());
      const CUstream_st* const compute = ComputeStream(log);
      const auto leaves = [compute](const OperationLog::Op& op) {
        return op.kind == OpKind::kCopyToHost && op.stream != compute;
      };
      std::size_t num_left = 0;
      for (std::size_t i = 0; i < log.ops.size(); ++i) {
        if (leaves(log.ops[i])) {
          ++num_left;
          // It does wait for the product that makes it.
          EXPECT_TRUE(log.Follows(i, [](const auto& op) { return op.kind == OpKind::kKernel; }));
        } else if (log.ops[i].stream == compute) {
          EXPECT_FALSE(log.Follows(i, leaves)) << "op " << i;
        }
      }
      EXPECT_GE(num_left, codes.size());
      // The host waits for the pass once, at its end.
      EXPECT_EQ(std::count(log.synchronized.begin(), log.synchronized.end(), compute), 1);
    }
  }
}

TEST_F(CudaOverlapTest, CodesAreThoseOfAHost) {
  for (const Codec codec : {Codec::kBF16, Codec::kF32, Codec::kInt8}) {
    const LayerPlan plan = tiny_.Plan(codec);
    sequence_ = *Sequence::Create(*cache_, 128);
    OperationLog log;
    const CodesByColumn codes = Run(plan, 0, 60, &log);
    const std::vector<std::int32_t> tokens(tokens_.begin(), tokens_.begin() + 60);
    const CodesByColumn expected = ExpectedCodes(tiny_.bundle(0), plan, tokens, 1);
    ASSERT_EQ(codes.size(), expected.size());
    for (const auto& [column, payload] : expected) {
      ASSERT_EQ(codes.at(column).size(), payload.size());
      if (codec != Codec::kF32) continue;
      const auto* ours = reinterpret_cast<const float*>(codes.at(column).data());
      const auto* theirs = reinterpret_cast<const float*>(payload.data());
      for (std::size_t i = 0; i < payload.size() / sizeof(float); ++i) {
        ASSERT_NEAR(ours[i], theirs[i], 2e-4) << "layer " << column.first << ", number " << i;
      }
    }
  }
}

// A tap that ends early leaves its codes behind; whoever uses the workspace next gets its own.
TEST_F(CudaOverlapTest, CodesThatNobodyTookHarmNoOthers) {
  const LayerPlan plan = tiny_.Plan(Codec::kF32);
  OperationLog log;
  const CodesByColumn expected = Run(plan, 0, 40, &log);
  const ReadyEncoder encoder = *encoders_->Get(tiny_.bundle(0), plan);
  for (int i = 0; i < 3; ++i) {
    const auto other = *Sequence::Create(*cache_, 64);
    EncodingTap tap(encoder, 0, 50, 1, [](const LayerCode&) {});
    const ForwardChunk chunk{
        .sequence = other.get(), .tokens = absl::MakeConstSpan(tokens_).subspan(50), .first_position = 0};
    ASSERT_TRUE(transformer_->Forward(*workspace_, {&chunk, 1}, {.tap = &tap}).ok());
  }
  sequence_ = *Sequence::Create(*cache_, 128);
  EXPECT_TRUE(Run(plan, 0, 40, &log) == expected);
}

}  // namespace
}  // namespace scd::testing
