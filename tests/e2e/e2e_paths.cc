#include "tests/e2e/e2e_paths.h"

#include <filesystem>

#include "tests/support/shared_data.h"

namespace scd::testing {
namespace {

std::optional<std::string> BundleAt(const std::string& folder) {
  if (!std::filesystem::exists(folder + "/manifest.json")) return std::nullopt;
  return folder;
}

}  // namespace

std::optional<std::string> SmallBundlePath() {
  return BundleAt(SCD_E2E_DIR "/small-bundle");
}
std::optional<std::string> ReferenceBundlePath() {
  return BundleAt(SCD_E2E_DIR "/reference-bundle");
}
std::string ShippedConfig(const std::string& name) {
  return TestDataPath("../../configs/" + name + ".yaml");
}

}  // namespace scd::testing
