// Where tests find the reference data that is not part of the repository: $SCD_SHARED_DIR, else ../shared beside it.
#ifndef SCD_TESTS_SUPPORT_SHARED_DATA_H_
#define SCD_TESTS_SUPPORT_SHARED_DATA_H_

#include <optional>
#include <string>

namespace scd::testing {

// Path of a file or folder under the shared folder; absent where it is not there.
std::optional<std::string> SharedPath(const std::string& relative);

// Path of a file or folder under tests/data.
std::string TestDataPath(const std::string& relative);

// The base model (models/base/...gguf, made by models/get_models.sh); absent where it was not fetched.
std::optional<std::string> BaseModelPath();

// models/smollm2-135m-expert of the repository.
std::string ExpertAdapterPath();

}  // namespace scd::testing

// At the start of a test: binds `var` to the shared path, or skips saying what is missing.
#define SCD_SHARED_OR_SKIP(var, relative)                                                       \
  const std::optional<std::string> var##_optional = ::scd::testing::SharedPath(relative);       \
  if (!var##_optional) GTEST_SKIP() << "no " << (relative) << " under SCD_SHARED_DIR";          \
  const std::string& var = *var##_optional

#define SCD_BASE_MODEL_OR_SKIP(var)                                                             \
  const std::optional<std::string> var##_optional = ::scd::testing::BaseModelPath();            \
  if (!var##_optional) GTEST_SKIP() << "the base model is not there: run models/get_models.sh"; \
  const std::string& var = *var##_optional

#endif  // SCD_TESTS_SUPPORT_SHARED_DATA_H_
