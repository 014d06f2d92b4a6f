// Fits the reference bundle of the real pair with scd-calibrate, once for the tests that need it.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/bundle/bundle.h"
#include "gtest/gtest.h"
#include "tests/e2e/real_pair.h"
#include "tests/support/process.h"
#include "tests/support/shared_data.h"

namespace scd::testing {
namespace {

// A bundle that this build's scd-calibrate made is good for another run of the tests.
bool IsFresh(const std::string& folder) {
  std::error_code error;
  const auto made = std::filesystem::last_write_time(folder + "/manifest.json", error);
  if (error) return false;
  const auto built = std::filesystem::last_write_time(BinaryPath("scd-calibrate"), error);
  return !error && made > built;
}

TEST(ReferenceBundleTest, IsFittedFromTheFirst90Prefixes) {
  SCD_BASE_MODEL_OR_SKIP([[maybe_unused]] base);
  SCD_SHARED_OR_SKIP(corpus, "data/calibration.jsonl");
  const std::string folder = ReferenceBundlePath();
  if (!IsFresh(folder)) {
    std::filesystem::create_directories(SCD_E2E_DIR);
    absl::StatusOr<std::unique_ptr<Process>> calibrate = Process::Start(
        BinaryPath("scd-calibrate"),
        {"--config", "tests/e2e/reference_calibrate.yaml", "--set", absl::StrCat("output=", folder), "--set",
         absl::StrCat("work_dir=", SCD_E2E_DIR, "/reference-work"), "--set",
         absl::StrCat("corpus.sources=[{jsonl: ", std::filesystem::canonical(corpus).string(), "}]")},
        SCD_E2E_DIR "/reference-calibrate.log");
    ASSERT_TRUE(calibrate.ok()) << calibrate.status();
    const absl::StatusOr<int> exit = (*calibrate)->WaitExit(absl::Minutes(30));
    ASSERT_TRUE(exit.ok()) << exit.status() << (*calibrate)->Log();
    ASSERT_EQ(*exit, 0) << (*calibrate)->Log();
  }

  const absl::StatusOr<std::unique_ptr<Bundle>> bundle = Bundle::Open(folder);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  const BundleManifest& manifest = (*bundle)->manifest();
  EXPECT_EQ(manifest.calibration.num_prefixes, 90);
  EXPECT_EQ(manifest.calibration.num_held_out_prefixes, 9);
  // The independent measurement: squared relative errors 0.090 and 0.116 on held-out rows, mean over layers.
  double k = 0, v = 0;
  for (const LayerErrors& errors : manifest.layer_errors) {
    k += errors.k * errors.k / static_cast<double>(manifest.layer_errors.size());
    v += errors.v * errors.v / static_cast<double>(manifest.layer_errors.size());
  }
  printf("held-out squared relative error, mean over layers: K %.4f, V %.4f\n", k, v);
  EXPECT_NEAR(k, 0.090, 0.015);
  EXPECT_NEAR(v, 0.116, 0.02);
}

}  // namespace
}  // namespace scd::testing
