// The plug-in that nvcc made, on whatever machine this is: it works, or says what is missing.
#include "gmock/gmock.h"
#include "kernels/backend_factory.h"

namespace scd::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(CudaRealPluginTest, WorksOrSaysWhyNot) {
  const auto backend = CreateBackend({.device = "cuda", .cuda = {.plugin = SCD_CUDA_PLUGIN}});
  if (backend.ok()) {
    EXPECT_EQ((*backend)->name(), "cuda");
    return;
  }
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kFailedPrecondition) << backend.status();
  // No driver, an old driver, no GPU, or no cuBLASLt.
  EXPECT_THAT(std::string(backend.status().message()),
              AnyOf(HasSubstr("cudaErrorInsufficientDriver"), HasSubstr("cudaErrorNoDevice"),
                    HasSubstr("there is no GPU"), HasSubstr("libcublasLt")));
}

TEST(CudaRealPluginTest, IsFoundBesideTheProgram) {
  const auto backend = CreateBackend({.device = "cuda"});
  if (backend.ok()) return;
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kFailedPrecondition) << backend.status();
  EXPECT_THAT(std::string(backend.status().message()), ::testing::Not(HasSubstr("there is no /")));
}

}  // namespace
}  // namespace scd::testing
