// The GGUF container (version 2 and 3, little-endian): typed metadata and tensor extents over a mapped file.
//
// Open checks everything that the header says against the file's size before anything is handed out: string
// and array lengths, duplicate keys and tensor names, ranks, dimensions, whole quantisation blocks in every
// row, alignment, and that tensors lie inside the file without overlapping. Nothing is allocated for a count
// that the file only claims.
#ifndef SCD_COMMON_MODEL_GGUF_FILE_H_
#define SCD_COMMON_MODEL_GGUF_FILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/io/mapped_file.h"
#include "common/model/gguf_dequantise.h"
#include "kernels/tensor_view.h"

namespace scd {

struct GgufTensor {
  GgmlType type = GgmlType::kF32;
  Shape shape;  // row-major: the file's dimensions reversed, [rows, columns] for a matrix
  absl::Span<const std::byte> data;  // as stored, exactly the bytes of shape and type; in the mapping
};

class GgufFile {
 public:
  // INVALID_ARGUMENT with the path, the key or tensor and what is wrong; NOT_FOUND where there is no file.
  static absl::StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path);

  const std::string& path() const { return file_->path(); }

  // Typed metadata. Each: INVALID_ARGUMENT naming file and key where the key is missing, of another type or
  // outside [min, max]. Int takes every integer type, Double every number; arrays likewise by element.
  bool Has(const std::string& key) const { return values_.contains(key); }
  absl::StatusOr<std::int64_t> Int(const std::string& key, std::int64_t min, std::int64_t max) const;
  absl::StatusOr<double> Double(const std::string& key, double min, double max) const;
  absl::StatusOr<bool> Bool(const std::string& key) const;
  absl::StatusOr<std::string> String(const std::string& key) const;
  // Views into the mapping, valid while this lives. The bytes need not be UTF-8.
  absl::StatusOr<std::vector<std::string_view>> StringArray(const std::string& key) const;
  absl::StatusOr<std::vector<std::int64_t>> IntArray(const std::string& key) const;
  absl::StatusOr<std::vector<float>> FloatArray(const std::string& key) const;
  // Whether the key holds an array (of whatever).
  bool IsArray(const std::string& key) const;

  // Sorted by name.
  const std::map<std::string, GgufTensor>& tensors() const { return tensors_; }
  // NOT_FOUND naming file and tensor.
  absl::StatusOr<GgufTensor> Tensor(const std::string& name) const;

  // "<path>: <what>: <message>" as INVALID_ARGUMENT.
  absl::Status Error(std::string_view what, std::string_view message) const;

 private:
  friend class GgufParser;

  // A value as it lies in the file, already checked for extent.
  struct Value {
    std::uint32_t type = 0;          // GGUF value type
    std::uint32_t element_type = 0;  // of an array
    std::uint64_t count = 1;         // elements of an array
    absl::Span<const std::byte> data;
  };

  explicit GgufFile(std::unique_ptr<MappedFile> file) : file_(std::move(file)) {}
  // The value of key, if it is an array exactly where `array` says so.
  absl::StatusOr<const Value*> Find(const std::string& key, bool array) const;

  std::unique_ptr<MappedFile> file_;
  std::map<std::string, Value> values_;
  std::map<std::string, GgufTensor> tensors_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_GGUF_FILE_H_
