// Where the cuda backend cannot be had: every reason is said, and nothing else stops working.
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "kernels/backend_factory.h"
#include "tests/kernels/cuda_options.h"
#include "tests/support/cuda_shim/runtime.h"
#include "tests/support/temp_dir.h"

namespace scd::testing {
namespace {

using ::testing::HasSubstr;

void ExpectNotPossible(const BackendOptions& options, const std::string& reason) {
  const auto backend = CreateBackend(options);
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kFailedPrecondition) << backend.status();
  EXPECT_THAT(std::string(backend.status().message()), HasSubstr("device cuda is not possible: "));
  EXPECT_THAT(std::string(backend.status().message()), HasSubstr(reason));
}

BackendOptions Plugin(const std::string& path) {
  return {.device = "cuda", .cuda = {.plugin = path}};
}

TEST(CudaPluginTest, IsLoadedFromAConfiguredPath) {
  const auto backend = CreateBackend(TestedCudaOptions(MathMode::kAuto));
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->name(), "cuda");
}

TEST(CudaPluginTest, WithoutALibraryThePlacesAreNamed) {
  ExpectNotPossible(Plugin("nowhere/libscd_cuda.so"), "there is no nowhere/libscd_cuda.so");
}

TEST(CudaPluginTest, AnotherFileIsNotLoaded) {
  const TempDir folder;
  const std::string path = folder.path() + "/libscd_cuda.so";
  std::ofstream(path) << "no library";
  ExpectNotPossible(Plugin(path), "libscd_cuda.so");
  ExpectNotPossible(Plugin(SCD_OTHER_LIBRARY), "is another library");
}

TEST(CudaPluginTest, OneOfOtherSourcesIsNotUsed) {
  ExpectNotPossible(Plugin(SCD_OLD_PLUGIN), "was built from other sources than this program");
}

TEST(CudaPluginTest, WithoutAGpuTheReasonIsTheDrivers) {
  cuda_shim::SetDeviceCount(0);
  ExpectNotPossible(TestedCudaOptions(MathMode::kAuto), "cudaErrorNoDevice");
  cuda_shim::SetDeviceCount(1);
  BackendOptions second = TestedCudaOptions(MathMode::kAuto);
  second.cuda.device = 1;
  ExpectNotPossible(second, "there is no GPU 1");
}

TEST(CudaPluginTest, OptionsHaveRanges) {
  for (const std::int64_t mib : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    BackendOptions options = TestedCudaOptions(MathMode::kAuto);
    options.cuda.scratch_mib = mib;
    const auto backend = CreateBackend(options);
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument) << mib;
    EXPECT_THAT(std::string(backend.status().message()), HasSubstr("scratch_mib"));
  }
}

}  // namespace
}  // namespace scd::testing
