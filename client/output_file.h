// A file for the figures of a long run: whether it can be written is known before the run.
#ifndef SCD_CLIENT_OUTPUT_FILE_H_
#define SCD_CLIENT_OUTPUT_FILE_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scd {

class OutputFile {
 public:
  // What the file holds stays until Write. A file that was not there is there, empty, and goes again where
  // Write is not called. Errors name the path.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Open(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Once: the file's new contents.
  absl::Status Write(std::string_view text);

 private:
  OutputFile(std::string path, int descriptor, bool is_new)
      : path_(std::move(path)), descriptor_(descriptor), remove_(is_new) {}
  absl::Status WriteAll(std::string_view text);

  const std::string path_;
  const int descriptor_;
  bool remove_;  // nothing was written to a file that was not there before
};

}  // namespace scd

#endif  // SCD_CLIENT_OUTPUT_FILE_H_
