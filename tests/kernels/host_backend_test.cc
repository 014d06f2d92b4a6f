// Memory, streams, events and the factory, on every backend of the host.
#include <cstdint>
#include <cstring>
#include <latch>
#include <thread>

#include "gmock/gmock.h"
#include "tests/kernels/backend_rig.h"

namespace scd::testing {
namespace {

using ::testing::HasSubstr;

class HostBackendTest : public ::testing::TestWithParam<const char*> {
 protected:
  BackendRig rig_{{.device = GetParam()}};
};

TEST_P(HostBackendTest, SaysWhatItIs) {
  EXPECT_EQ(rig_.backend().name(), GetParam());
  EXPECT_EQ(rig_.backend().device(), Device::kHost);
  EXPECT_THAT(rig_.backend().Describe(), HasSubstr(GetParam()));
}

TEST_P(HostBackendTest, BuffersAreAlignedAndWritable) {
  for (const std::size_t bytes : {0, 1, 63, 4096}) {
    for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kStaging}) {
      auto buffer = rig_.backend().Allocate(kind, bytes);
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      EXPECT_EQ((*buffer)->size_bytes(), bytes);
      EXPECT_EQ((*buffer)->device(), Device::kHost);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*buffer)->data()) % 64, 0u);
      std::memset((*buffer)->data(), 1, bytes);
    }
  }
}

TEST_P(HostBackendTest, MemoryThatIsNotThereIsResourceExhausted) {
  const auto buffer = rig_.backend().Allocate(MemoryKind::kDevice, SIZE_MAX);
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted) << buffer.status();
}

TEST_P(HostBackendTest, AnEventCarriesWritesToAnotherThread) {
  auto event = rig_.backend().CreateEvent();
  ASSERT_TRUE(event.ok());
  auto other_stream = rig_.backend().CreateStream();
  ASSERT_TRUE(other_stream.ok());
  const RigTensor x = rig_.Put({1, 4}, {1.0f, 2.0f, 3.0f, 4.0f});
  const RigTensor copy = rig_.Make({1, 4});
  std::latch recorded(1);
  std::thread writer([&] {
    ExpectOk(rig_.backend().Copy(rig_.stream(), copy.view, x.view));
    ExpectOk(rig_.backend().Record(**event, rig_.stream()));
    recorded.count_down();
  });
  recorded.wait();
  ExpectOk(rig_.backend().Wait(**other_stream, **event));
  const RigTensor second = rig_.Make({1, 4});
  ExpectOk(rig_.backend().Copy(**other_stream, second.view, copy.view));
  ExpectOk(rig_.backend().Synchronize(**other_stream));
  writer.join();
  EXPECT_EQ(rig_.Get(second), (std::vector<float>{1.0f, 2.0f, 3.0f, 4.0f}));
}

TEST_P(HostBackendTest, RefusesForeignEvents) {
  class OtherEvent : public Event {
  } event;
  EXPECT_EQ(rig_.backend().Record(event, rig_.stream()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rig_.backend().Wait(rig_.stream(), event).code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Backends, HostBackendTest, ::testing::Values("reference", "cpu"));

TEST(BackendFactoryTest, NamesTheKnownBackends) {
  const auto backend = CreateBackend({.device = "abacus"});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(backend.status().message()), HasSubstr("abacus"));
  EXPECT_THAT(std::string(backend.status().message()), HasSubstr("cpu, reference"));
}

TEST(BackendFactoryTest, ThreadCountsHaveARange) {
  for (const int threads : {-1, 100000}) {
    const auto backend = CreateBackend({.device = "cpu", .num_threads = threads});
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument) << threads;
  }
  const auto backend = CreateBackend({.device = "cpu", .num_threads = 3});
  ASSERT_TRUE(backend.ok());
  EXPECT_THAT((*backend)->Describe(), HasSubstr("3 threads"));
}

TEST(BackendFactoryTest, ForcedMathShowsInTheDescription) {
  const auto f32 = CreateBackend({.device = "cpu", .math = MathMode::kF32});
  ASSERT_TRUE(f32.ok());
  EXPECT_THAT((*f32)->Describe(), HasSubstr("products in f32"));
  const auto bf16 = CreateBackend({.device = "cpu", .math = MathMode::kBF16});
  ASSERT_TRUE(bf16.ok());
  EXPECT_THAT((*bf16)->Describe(), HasSubstr("products in bf16"));
}

}  // namespace
}  // namespace scd::testing
