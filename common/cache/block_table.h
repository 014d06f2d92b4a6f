// The numbers of a sequence's pages where kernels read them.
#ifndef SCD_COMMON_CACHE_BLOCK_TABLE_H_
#define SCD_COMMON_CACHE_BLOCK_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace scd {

// For one thread; views stay valid until the next Set.
class BlockTable {
 public:
  // `backend` outlives this.
  explicit BlockTable(Backend& backend) : backend_(backend) {}

  // Where it fails the table is as it was.
  absl::Status Set(const std::vector<std::int32_t>& pages);
  // [pages] i32 on the device.
  ConstTensorView view() const { return buffer_->View(DType::kI32, {num_pages_}); }

 private:
  Backend& backend_;
  std::unique_ptr<Stream> stream_;  // from the first Set on
  std::unique_ptr<Buffer> buffer_;
  std::int64_t num_pages_ = 0;
};

}  // namespace scd

#endif  // SCD_COMMON_CACHE_BLOCK_TABLE_H_
