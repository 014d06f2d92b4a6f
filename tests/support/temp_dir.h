// A folder for one test, removed when it goes out of scope, and whole-file reads and writes.
#ifndef SCD_TESTS_SUPPORT_TEMP_DIR_H_
#define SCD_TESTS_SUPPORT_TEMP_DIR_H_

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace scd::testing {

class TempDir {
 public:
  TempDir() : path_((std::filesystem::temp_directory_path() / "scd-test-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void WriteFile(const std::string& path, const std::string& contents) {
  // A new file rather than an old one cut short: ext4 writes the latter to disk at once, which tests pay for
  // dearly.
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(contents.data(), static_cast<long>(contents.size()));
}

}  // namespace scd::testing

#endif  // SCD_TESTS_SUPPORT_TEMP_DIR_H_
