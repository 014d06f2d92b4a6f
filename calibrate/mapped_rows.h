// f32 rows in a file without a name that is mapped into memory: the kernel keeps of them what it has room
// for, so rows of any number can be read in any order with bounded memory of our own.
#ifndef SCD_CALIBRATE_MAPPED_ROWS_H_
#define SCD_CALIBRATE_MAPPED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/tensor_view.h"

namespace scd {

class MappedRows {
 public:
  // In `folder`; RESOURCE_EXHAUSTED where its disk has no room (which is reserved here, so that no later
  // write fails).
  static absl::StatusOr<std::unique_ptr<MappedRows>> Create(const std::string& folder, std::int64_t rows,
                                                            std::int64_t columns);
  MappedRows(const MappedRows&) = delete;
  MappedRows& operator=(const MappedRows&) = delete;
  ~MappedRows();

  // [rows, columns] f32; zeros at first.
  TensorView view() const { return TensorView(data_, DType::kF32, Shape{rows_, columns_}); }

 private:
  MappedRows(void* data, std::size_t bytes, std::int64_t rows, std::int64_t columns);

  void* const data_;  // null where there are no rows
  const std::size_t bytes_;
  const std::int64_t rows_;
  const std::int64_t columns_;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_MAPPED_ROWS_H_
