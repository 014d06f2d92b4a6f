// The safetensors format: a reader over a mapped file that trusts nothing, and a writer.
//
// File: 8-byte little-endian header length, JSON header, tensor bytes. The reader checks the header's length, its
// JSON, every dtype, shape and extent against the file's size, that extents neither overlap nor leave holes, and
// that offsets are ordered and in range, before any tensor is handed out. A file whose data section is empty but
// that declares no tensors is valid; a zero-byte file is not.
#ifndef SCD_COMMON_IO_SAFETENSORS_H_
#define SCD_COMMON_IO_SAFETENSORS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/mapped_file.h"
#include "kernels/tensor_view.h"

namespace scd {

class SafetensorsFile {
 public:
  // INVALID_ARGUMENT with the path, the tensor and what is wrong.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  const std::string& path() const;
  // Sorted by name. Views (kF32, kF16, kBF16, kI32, kI8, kU8) into the mapping, valid while this lives. A tensor that
  // the file's own offsets leave unaligned for its dtype is a view of an aligned copy instead.
  const std::map<std::string, ConstTensorView>& tensors() const { return tensors_; }
  // NOT_FOUND naming file and tensor.
  absl::StatusOr<ConstTensorView> Get(const std::string& name) const;
  // Get, and INVALID_ARGUMENT unless dtype and shape are these.
  absl::StatusOr<ConstTensorView> Get(const std::string& name, DType dtype, const Shape& shape) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  explicit SafetensorsFile(std::unique_ptr<MappedFile> file);

  absl::Status Parse();

  std::unique_ptr<MappedFile> file_;
  std::vector<std::vector<std::byte>> aligned_copies_;
  std::map<std::string, ConstTensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

struct NamedTensor {
  std::string name;
  ConstTensorView view;  // on the host; contiguous
};

// Writes path (flushed to disk before it returns). Names are unique. Not atomic: callers write into a temporary
// folder and rename it.
absl::Status WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace scd

#endif  // SCD_COMMON_IO_SAFETENSORS_H_
