// What is the cuda backend's own: memory, order, errors that only the device can see.
#include <cstdint>
#include <cstring>
#include <thread>

#include "gmock/gmock.h"
#include "tests/kernels/backend_rig.h"
#include "tests/kernels/cuda_options.h"
#include "tests/kernels/kv_parity.h"

namespace scd::testing {
namespace {

using ::testing::HasSubstr;

class CudaBackendTest : public ::testing::Test {
 protected:
  CudaBackendTest() { UseThreadOrder(0); }

  Backend& backend() { return rig_.backend(); }
  Stream& stream() { return rig_.stream(); }

  // The next Synchronize answers with what the op met, and the one after it is good again.
  void ExpectRefused(const absl::Status& queued, const std::string& op, const std::string& operand) {
    ExpectOk(queued);
    const absl::Status status = backend().Synchronize(stream());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(op + ": " + operand));
    ExpectOk(backend().Synchronize(stream()));
  }

  BackendRig rig_{TestedCudaOptions(MathMode::kF32)};
};

TEST_F(CudaBackendTest, SaysWhatItIs) {
  EXPECT_EQ(backend().name(), "cuda");
  EXPECT_EQ(backend().device(), Device::kCuda);
  EXPECT_THAT(backend().Describe(), HasSubstr("compute capability "));
  EXPECT_THAT(backend().Describe(), HasSubstr("products in f32"));
  const auto as_it_is_best = CreateBackend(TestedCudaOptions(MathMode::kAuto));
  ExpectOk(as_it_is_best.status());
  EXPECT_THAT((*as_it_is_best)->Describe(), HasSubstr("products in bf16"));
}

TEST_F(CudaBackendTest, MemoryOfBothKinds) {
  for (const std::size_t bytes : {0, 1, 4096}) {
    const auto device = backend().Allocate(MemoryKind::kDevice, bytes);
    ExpectOk(device.status());
    EXPECT_EQ((*device)->device(), Device::kCuda);
    EXPECT_EQ((*device)->size_bytes(), bytes);
    const auto staging = backend().Allocate(MemoryKind::kStaging, bytes);
    ExpectOk(staging.status());
    EXPECT_EQ((*staging)->device(), Device::kHost);
    std::memset((*staging)->data(), 1, bytes);
  }
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kStaging}) {
    for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX / 8}) {
      EXPECT_EQ(backend().Allocate(kind, bytes).status().code(), absl::StatusCode::kResourceExhausted)
          << bytes;
    }
  }
}

TEST_F(CudaBackendTest, AnotherStreamWaitsForAnEvent) {
  const auto event = *backend().CreateEvent();
  const auto other = *backend().CreateStream();
  const auto staging = *backend().Allocate(MemoryKind::kStaging, 4 * sizeof(float));
  const float numbers[] = {1.0f, 2.0f, 3.0f, 4.0f};
  std::memcpy(staging->data(), numbers, sizeof(numbers));
  const RigTensor x = rig_.Make({1, 4});
  const RigTensor y = rig_.Make({1, 4});
  // An event that was never recorded holds nobody up.
  ExpectOk(backend().Wait(*other, *event));
  ExpectOk(backend().Copy(stream(), x.view, staging->View(DType::kF32, {1, 4})));
  ExpectOk(backend().Record(*event, stream()));
  std::thread([&] {
    ExpectOk(backend().Wait(*other, *event));
    ExpectOk(backend().Copy(*other, y.view, x.view));
    ExpectOk(backend().Synchronize(*other));
  }).join();
  EXPECT_EQ(rig_.Get(y), std::vector<float>(numbers, numbers + 4));
}

TEST_F(CudaBackendTest, PageableMemoryMayBeReusedAtOnce) {
  std::vector<float> numbers = {1.0f, 2.0f, 3.0f};
  const RigTensor x = rig_.Make({3});
  const RigTensor half = rig_.Make({3}, 0, DType::kBF16);
  ExpectOk(backend().Copy(stream(), x.view, ConstTensorView(numbers.data(), DType::kF32, {3})));
  ExpectOk(backend().Copy(stream(), half.view, ConstTensorView(numbers.data(), DType::kF32, {3})));
  numbers.assign(3, 9.0f);
  EXPECT_EQ(rig_.Get(x), (std::vector<float>{1.0f, 2.0f, 3.0f}));
  EXPECT_EQ(rig_.Get(half), (std::vector<float>{1.0f, 2.0f, 3.0f}));
}

TEST_F(CudaBackendTest, CopiesLargerThanTheScratchMemory) {
  for (const Shape& shape : {Shape{700000}, Shape{3, 300000}, Shape{2000, 301}}) {
    const std::vector<float> numbers = Random(shape.num_elements(), 1);
    std::vector<float> rounded;
    for (const float number : numbers) rounded.push_back(Bf16ToFloat(FloatToBf16(number)));
    const RigTensor x = rig_.Put(shape, numbers, shape.rank() == 1 ? 0 : 3, DType::kBF16);
    EXPECT_EQ(rig_.Get(x), rounded) << shape.ToString();
  }
}

TEST_F(CudaBackendTest, NothingIsCopiedFromHostToHost) {
  float a = 0.0f;
  float b = 1.0f;
  const absl::Status status =
      backend().Copy(stream(), TensorView(&a, DType::kF32, {1}), ConstTensorView(&b, DType::kF32, {1}));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_F(CudaBackendTest, WhatIsOfAnotherBackendIsRefused) {
  const BackendRig host({.device = "reference"});
  const auto code = [](const absl::Status& status) { return status.code(); };
  constexpr auto kRefused = absl::StatusCode::kInvalidArgument;
  const auto reference = *CreateBackend({.device = "reference"});
  const auto host_stream = *reference->CreateStream();
  const auto host_event = *reference->CreateEvent();
  EXPECT_EQ(code(backend().Synchronize(*host_stream)), kRefused);
  EXPECT_EQ(code(backend().Record(*host_event, stream())), kRefused);
  EXPECT_EQ(code(backend().Wait(stream(), *host_event)), kRefused);
  std::vector<float> numbers(4);
  EXPECT_EQ(code(backend().Silu(stream(), TensorView(numbers.data(), DType::kF32, {1, 4}))), kRefused);
  const auto weight = *reference->PackWeight(ConstTensorView(numbers.data(), DType::kF32, {2, 2}), {});
  const RigTensor x = rig_.Make({1, 2});
  EXPECT_EQ(code(backend().MatMul(stream(), x.view, *weight, x.view)), kRefused);
}

TEST_F(CudaBackendTest, BadIndicesAreAnsweredBySynchronize) {
  const RigTensor table = rig_.Put({3, 4}, Random(12, 1), 0, DType::kBF16);
  const RigTensor out = rig_.Put({2, 4}, Random(8, 2));
  const std::vector<float> before = rig_.Get(out);
  for (const std::int32_t id : {3, -1, 1 << 30}) {
    ExpectRefused(backend().Embed(stream(), table.view, rig_.PutIndices({id, id}).view, out.view), "Embed",
                  "ids");
  }
  EXPECT_EQ(rig_.Get(out), before);

  const RigTensor x = rig_.Put({2, 1, 4}, Random(8, 3));
  const std::vector<float> x_before = rig_.Get(x);
  const RigTensor cos = rig_.Put({5, 2}, Random(10, 4));
  for (const std::int32_t position : {5, -1}) {
    ExpectRefused(
        backend().Rope(stream(), x.view, rig_.PutIndices({position, position}).view, {cos.view, cos.view}),
        "Rope", "positions");
  }
  EXPECT_EQ(rig_.Get(x), x_before);
}

TEST_F(CudaBackendTest, BadPagesAreAnsweredBySynchronize) {
  for (const DType dtype : kPageDTypes) {
    const RigPages pages = MakePages(rig_, dtype, 8, 2, 4, 8);
    const RigTensor k = rig_.Put({2, 2, 8}, Random(32, 1));
    const RigTensor good = rig_.PutIndices({0, 7});
    ExpectOk(backend().WriteKv(stream(), k.view, k.view, good.view, pages.kv));
    ExpectOk(backend().Synchronize(stream()));
    for (const std::int32_t position : {8, -1}) {
      ExpectRefused(
          backend().WriteKv(stream(), k.view, k.view, rig_.PutIndices({0, position}).view, pages.kv),
          "WriteKv", "positions");
    }
    PagedKv beyond = pages.kv;
    const RigTensor table = rig_.PutIndices({0, 4});
    beyond.block_table = table.view;
    ExpectRefused(backend().WriteKv(stream(), k.view, k.view, good.view, beyond), "WriteKv", "block_table");
    const RigTensor q = rig_.Put({1, 4, 8}, Random(32, 2));
    const RigTensor out = rig_.Make({1, 4, 8});
    ExpectRefused(backend().Attention(stream(), q.view, {{0, 1, 7, beyond}}, {.scale = 0.3f}, out.view),
                  "Attention", "block_table");
  }
}

TEST_F(CudaBackendTest, HeadsHaveALargestSize) {
  const RigTensor pages = rig_.Make({1, 1, 4, 260});
  const RigTensor table = rig_.PutIndices({0});
  const RigTensor q = rig_.Make({1, 1, 260});
  const absl::Status status = backend().Attention(
      stream(), q.view, {{0, 1, 0, {pages.view, pages.view, table.view}}}, {.scale = 1.0f}, q.view);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("head_dim"));
}

TEST_F(CudaBackendTest, GemmWithoutDepthScales) {
  const RigTensor a = rig_.Make({0, 2});
  const RigTensor b = rig_.Make({0, 3});
  const RigTensor c = rig_.Put({2, 3}, {1, 2, 3, 4, 5, 6});
  ExpectOk(backend().Gemm(stream(), a.view, b.view, c.view, {.transpose_a = true, .beta = 2.0f}));
  EXPECT_EQ(rig_.Get(c), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  ExpectOk(backend().Gemm(stream(), a.view, b.view, c.view, {.transpose_a = true}));
  EXPECT_EQ(rig_.Get(c), std::vector<float>(6, 0.0f));
}

TEST_F(CudaBackendTest, MoreSequencesThanALaunchTakes) {
  constexpr std::int64_t kSequences = 101;
  const RigPages pages = MakePages(rig_, DType::kF32, 40, 2, 8, 16);
  const RigTensor k = rig_.Put({40, 2, 16}, Random(40 * 2 * 16, 1));
  std::vector<std::int32_t> positions(40);
  std::iota(positions.begin(), positions.end(), 0);
  const RigTensor at = rig_.PutIndices(positions);
  ExpectOk(backend().WriteKv(stream(), k.view, k.view, at.view, pages.kv));
  const RigTensor q = rig_.Put({kSequences, 4, 16}, Random(kSequences * 64, 2));
  const RigTensor together = rig_.Make({kSequences, 4, 16});
  const RigTensor alone = rig_.Make({kSequences, 4, 16});
  std::vector<AttentionSequence> sequences;
  for (std::int64_t s = 0; s < kSequences; ++s) sequences.push_back({s, 1, s % 40, pages.kv});
  ExpectOk(backend().Attention(stream(), q.view, sequences, {.scale = 0.2f}, together.view));
  for (const AttentionSequence& s : sequences) {
    ExpectOk(backend().Attention(stream(), q.view, {s}, {.scale = 0.2f}, alone.view));
  }
  EXPECT_EQ(rig_.Get(together), rig_.Get(alone));
}

}  // namespace
}  // namespace scd::testing
