// Follows one transfer and says whether every code that was promised arrived exactly once.
#ifndef SCD_COMMON_WIRE_TRANSFER_CHECKER_H_
#define SCD_COMMON_WIRE_TRANSFER_CHECKER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/config/layer_plan.h"
#include "common/wire/layer_code.h"

namespace scd {

// Frames of one layer and kind arrive in token order without gaps; layers and kinds may interleave.
class TransferChecker {
 public:
  // Codes of positions [first_token, end_token) of every layer, as `plan` asks.
  TransferChecker(const LayerPlan& plan, std::int64_t first_token, std::int64_t end_token);

  // DATA_LOSS naming layer, kind and range: a kind the plan has not, another rank or codec, repeated, out of
  // order, or out of range. A code that was refused counts as not arrived.
  absl::Status Accept(const LayerCode& code);
  // DATA_LOSS naming the first missing range unless all is there.
  absl::Status CheckComplete() const;
  bool complete() const { return missing_ == 0; }

 private:
  static constexpr std::int64_t kKinds = kNumCodeKinds;

  // The codes of one layer and kind.
  struct Part {
    std::int64_t rank = 0;  // 0: not part of the plan
    std::int64_t next = 0;  // next expected position
  };

  absl::Status CheckNext(const LayerCode& code, const Part& part) const;

  const Codec codec_;
  const std::int64_t first_token_;
  const std::int64_t end_token_;
  std::vector<Part> parts_;   // [layers][kinds]
  std::int64_t missing_ = 0;  // token rows still to come, over all parts
};

}  // namespace scd

#endif  // SCD_COMMON_WIRE_TRANSFER_CHECKER_H_
