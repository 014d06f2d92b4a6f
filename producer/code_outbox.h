// What waits to be written on one stream, in order. Codes from the code store become frames only when it is
// their turn, so that they take no memory of their own. Not thread-safe.
#ifndef SCD_PRODUCER_CODE_OUTBOX_H_
#define SCD_PRODUCER_CODE_OUTBOX_H_

#include <cstdint>
#include <deque>
#include <variant>

#include "common/config/layer_plan.h"
#include "common/store/stored_codes.h"
#include "common/wire/layer_code.h"
#include "scd/v1/producer.pb.h"

namespace scd {

class CodeOutbox {
 public:
  void Add(v1::PrefillHeader header);
  void Add(LayerCode code);
  void Add(const LayerPlan& plan, StoredCodes codes);
  void Clear() { waiting_.clear(); }

  // The next message; false where nothing waits.
  bool Next(v1::PrefillResponse* message);
  // Messages that wait; stored codes that were added together count as one.
  std::int64_t size() const { return static_cast<std::int64_t>(waiting_.size()); }

  // Of all frames that Next gave.
  std::int64_t num_frames() const { return num_frames_; }
  std::int64_t payload_bytes() const { return payload_bytes_; }

 private:
  std::deque<std::variant<v1::PrefillResponse, StoredCodeReader>> waiting_;
  std::int64_t num_frames_ = 0;
  std::int64_t payload_bytes_ = 0;
};

}  // namespace scd

#endif  // SCD_PRODUCER_CODE_OUTBOX_H_
