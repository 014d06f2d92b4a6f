// A copy of a model folder that a test may change.
#ifndef SCD_TESTS_SUPPORT_MODEL_FOLDER_H_
#define SCD_TESTS_SUPPORT_MODEL_FOLDER_H_

#include <filesystem>
#include <functional>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/support/temp_dir.h"

namespace scd::testing {

class ModelFolder {
 public:
  // Copies the files of `source` into a folder of the given name.
  explicit ModelFolder(const std::string& source, const std::string& name = "model")
      : path_(dir_.File(name)) {
    std::filesystem::create_directory(path_);
    for (const auto& item : std::filesystem::directory_iterator(source)) {
      const std::filesystem::path target = std::filesystem::path(path_) / item.path().filename();
      WriteFile(target.string(), ReadFile(item.path().string()));  // fresh files: the source may be read-only
    }
  }

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  void Remove(const std::string& name) const { std::filesystem::remove(File(name)); }
  void EditJson(const std::string& name, const std::function<void(nlohmann::json&)>& change) const {
    nlohmann::json document = nlohmann::json::parse(ReadFile(File(name)));
    change(document);
    WriteFile(File(name), document.dump());
  }

 private:
  TempDir dir_;
  std::string path_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_SUPPORT_MODEL_FOLDER_H_
