#include "tests/support/shared_data.h"

#include <cstdlib>
#include <filesystem>

namespace scd::testing {
namespace {

std::optional<std::string> IfExists(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  return path.string();
}

}  // namespace

std::optional<std::string> SharedPath(const std::string& relative) {
  const char* dir = std::getenv("SCD_SHARED_DIR");
  return IfExists(std::filesystem::path(dir != nullptr ? dir : SCD_SOURCE_DIR "/../shared") / relative);
}

std::string TestDataPath(const std::string& relative) { return SCD_SOURCE_DIR "/tests/data/" + relative; }

std::optional<std::string> BaseModelPath() {
  return IfExists(SCD_SOURCE_DIR "/models/base/SmolLM2-135M-Instruct.Q4_1.gguf");
}

std::string ExpertAdapterPath() { return SCD_SOURCE_DIR "/models/smollm2-135m-expert"; }

}  // namespace scd::testing
