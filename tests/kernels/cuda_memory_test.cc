// How device memory is shared out: the arena alone, and a backend that takes its memory at start.
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "kernels/cuda/arena.h"
#include "tests/kernels/cuda_options.h"
#include "tests/support/cuda_shim/runtime.h"

namespace scd {
namespace {

using cuda::Arena;
using ::testing::HasSubstr;

TEST(CudaArenaTest, PiecesDoNotOverlapAndTheirGapsJoin) {
  Arena arena(64 * Arena::kAlignment + 17);
  EXPECT_EQ(arena.free_bytes(), 64 * Arena::kAlignment);
  std::mt19937 random(5);
  std::map<std::size_t, std::size_t> pieces;  // begin -> rounded size
  std::size_t used = 0;
  for (int step = 0; step < 4000; ++step) {
    if (random() % 2 == 0) {
      const std::size_t bytes = random() % (9 * Arena::kAlignment);
      const std::size_t rounded =
          (std::max<std::size_t>(bytes, 1) + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
      const std::size_t largest = arena.largest_gap();
      const auto begin = arena.Take(bytes);
      ASSERT_EQ(begin.has_value(), rounded <= largest);
      if (!begin) continue;
      EXPECT_EQ(*begin % Arena::kAlignment, 0u);
      const auto after = pieces.lower_bound(*begin);
      if (after != pieces.end()) {
        ASSERT_LE(*begin + rounded, after->first);
      }
      if (after != pieces.begin()) {
        ASSERT_LE(std::prev(after)->first + std::prev(after)->second, *begin);
      }
      pieces[*begin] = rounded;
      used += rounded;
    } else if (!pieces.empty()) {
      const auto piece = std::next(pieces.begin(), static_cast<std::ptrdiff_t>(random() % pieces.size()));
      arena.Give(piece->first);
      used -= piece->second;
      pieces.erase(piece);
    }
    ASSERT_EQ(arena.free_bytes(), 64 * Arena::kAlignment - used);
  }
  for (const auto& [begin, size] : pieces) arena.Give(begin);
  EXPECT_EQ(arena.largest_gap(), 64 * Arena::kAlignment);
}

TEST(CudaArenaTest, TheSmallestGapThatFitsIsTaken) {
  Arena arena(16 * Arena::kAlignment);
  const auto a = arena.Take(4 * Arena::kAlignment);
  const auto b = arena.Take(1);
  const auto c = arena.Take(2 * Arena::kAlignment);
  const auto d = arena.Take(1);
  ASSERT_TRUE(a && b && c && d);
  arena.Give(*a);
  arena.Give(*c);
  EXPECT_EQ(arena.Take(2 * Arena::kAlignment), c);
  EXPECT_EQ(arena.Take(3 * Arena::kAlignment), a);
  EXPECT_FALSE(arena.Take(9 * Arena::kAlignment).has_value());
  EXPECT_FALSE(arena.Take(std::size_t{0} - 1).has_value());
}

class CudaMemoryTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Backend> Create(std::optional<std::int64_t> memory_mib) {
    BackendOptions options = testing::TestedCudaOptions(MathMode::kF32);
    options.cuda.memory_mib = memory_mib;
    auto backend = CreateBackend(options);
    EXPECT_TRUE(backend.ok()) << backend.status();
    return backend.ok() ? *std::move(backend) : nullptr;
  }
};

TEST_F(CudaMemoryTest, WhatIsAllocatedLaterComesFromWhatWasTakenAtStart) {
  const auto backend = Create(16);
  ASSERT_NE(backend, nullptr);
  const std::int64_t before = cuda_shim::NumDeviceAllocations();
  EXPECT_EQ(**backend->FreeDeviceBytes(), 16 << 20);
  for (int i = 0; i < 100; ++i) {
    const auto stream = backend->CreateStream();
    ASSERT_TRUE(stream.ok()) << stream.status();
    const auto buffer = backend->Allocate(MemoryKind::kDevice, 3 << 20);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_LT(**backend->FreeDeviceBytes(), 13 << 20);
  }
  EXPECT_EQ(**backend->FreeDeviceBytes(), 16 << 20);
  EXPECT_EQ(cuda_shim::NumDeviceAllocations(), before);
}

TEST_F(CudaMemoryTest, WhereNothingIsLeftTheFieldsAreNamed) {
  const auto backend = Create(4);
  ASSERT_NE(backend, nullptr);
  const auto first = backend->Allocate(MemoryKind::kDevice, 3 << 20);
  ASSERT_TRUE(first.ok());
  const auto second = backend->Allocate(MemoryKind::kDevice, 2 << 20);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  for (const char* field : {"cuda.memory_mib", "kv_cache.memory_mib", "1048576 bytes are left"}) {
    EXPECT_THAT(std::string(second.status().message()), HasSubstr(field));
  }
}

// Memory goes to another only when what was queued on it has run.
TEST_F(CudaMemoryTest, MemoryThatIsGivenBackIsNotTakenWhileItIsUsed) {
  const auto backend = Create(4);
  ASSERT_NE(backend, nullptr);
  const auto stream = *backend->CreateStream(StreamUse::kCopies);
  const auto result = *backend->Allocate(MemoryKind::kStaging, 3 << 20);
  const auto ones = *backend->Allocate(MemoryKind::kStaging, 3 << 20);
  const Shape shape{(3 << 20) / 4};
  for (std::int64_t i = 0; i < shape.num_elements(); ++i) static_cast<float*>(ones->data())[i] = 1.0f;
  {
    const auto buffer = *backend->Allocate(MemoryKind::kDevice, 3 << 20);
    ASSERT_TRUE(
        backend->Copy(*stream, buffer->View(DType::kF32, shape), ones->View(DType::kF32, shape)).ok());
    ASSERT_TRUE(
        backend->Copy(*stream, result->View(DType::kF32, shape), buffer->View(DType::kF32, shape)).ok());
  }
  const auto next = *backend->Allocate(MemoryKind::kDevice, 3 << 20);
  const auto other = *backend->CreateStream(StreamUse::kCopies);
  std::vector<float> zeros(static_cast<std::size_t>(shape.num_elements()));
  ASSERT_TRUE(
      backend->Copy(*other, next->View(DType::kF32, shape), ConstTensorView(zeros.data(), DType::kF32, shape))
          .ok());
  ASSERT_TRUE(backend->Synchronize(*other).ok());
  ASSERT_TRUE(backend->Synchronize(*stream).ok());
  EXPECT_EQ(static_cast<const float*>(result->data())[0], 1.0f);
  EXPECT_EQ(static_cast<const float*>(result->data())[shape.num_elements() - 1], 1.0f);
}

TEST_F(CudaMemoryTest, AutoTakesWhatIsFreeButForTheDriversShare) {
  const auto first = Create(std::nullopt);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(**first->FreeDeviceBytes(), 128 << 20);
  BackendOptions options = testing::TestedCudaOptions(MathMode::kF32);
  options.cuda.memory_mib = std::nullopt;
  const auto second = CreateBackend(options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("cuda.memory_mib"));
  options.cuda.memory_mib = 1 << 30;
  EXPECT_EQ(CreateBackend(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CudaMemoryTest, WithoutMemorySetAsideEachAllocationIsTheDrivers) {
  const auto backend = Create(0);
  ASSERT_NE(backend, nullptr);
  const std::int64_t before = cuda_shim::NumDeviceAllocations();
  ASSERT_TRUE(backend->Allocate(MemoryKind::kDevice, 100).ok());
  EXPECT_EQ(cuda_shim::NumDeviceAllocations(), before + 1);
  EXPECT_GT(**backend->FreeDeviceBytes(), 512 << 20);
}

// Streams for copies take no memory and refuse all else.
TEST_F(CudaMemoryTest, StreamsForCopiesOnlyCopy) {
  const auto backend = Create(4);
  ASSERT_NE(backend, nullptr);
  const auto stream = *backend->CreateStream(StreamUse::kCopies);
  EXPECT_EQ(**backend->FreeDeviceBytes(), 4 << 20);
  const auto device = *backend->Allocate(MemoryKind::kDevice, 64);
  const auto host = *backend->Allocate(MemoryKind::kStaging, 64);
  EXPECT_TRUE(
      backend->Copy(*stream, device->View(DType::kF32, {1, 8}), host->View(DType::kF32, {1, 8})).ok());
  EXPECT_EQ(
      backend->Copy(*stream, device->View(DType::kF32, {1, 8}), host->View(DType::kBF16, {1, 8})).code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->Silu(*stream, device->View(DType::kF32, {1, 8})).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(backend->Synchronize(*stream).ok());
}

TEST_F(CudaMemoryTest, EventsTellTheHost) {
  const auto backend = Create(4);
  ASSERT_NE(backend, nullptr);
  const auto stream = *backend->CreateStream(StreamUse::kCopies);
  const auto event = *backend->CreateEvent();
  EXPECT_TRUE(*backend->Reached(*event));
  const auto device = *backend->Allocate(MemoryKind::kDevice, 64);
  const auto host = *backend->Allocate(MemoryKind::kStaging, 64);
  ASSERT_TRUE(backend->Copy(*stream, device->View(DType::kF32, {16}), host->View(DType::kF32, {16})).ok());
  ASSERT_TRUE(backend->Record(*event, *stream).ok());
  EXPECT_FALSE(*backend->Reached(*event));
  EXPECT_TRUE(backend->Await(*event).ok());
  EXPECT_TRUE(*backend->Reached(*event));
}

}  // namespace
}  // namespace scd
