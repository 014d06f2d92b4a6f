// Memory that LayerEncoder works in: the device's tensors, and the slots through which codes leave it.
//
// Where the device is the host there is one slot, and a code is there when its product has run. For another
// device a code leaves through a slot on a stream of its own: the device goes on with the next layer while it
// is copied, and waits for no copy, for a slot is taken again only after the host has met its copy's end.
#ifndef SCD_COMMON_TRANSLATE_ENCODER_WORKSPACE_H_
#define SCD_COMMON_TRANSLATE_ENCODER_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/translate/layer_encoder.h"
#include "kernels/backend.h"
#include "kernels/grouped_integers.h"

namespace scd {

// What the codes of a plan need.
struct EncoderSizes {
  std::int64_t most_columns = 0;  // of a code, as it leaves the device
  DType staging_dtype = DType::kF32;
  bool integers = false;     // another device packs them before they leave it
  bool positions = false;    // some rows are turned
  std::size_t num_kept = 0;  // layers of a group whose rows are kept
  std::int64_t hidden = 0;
};

class EncoderWorkspace : public LayerEncoder::Workspace {
 public:
  // Two layers' codes of K and V, each of which may be cut in two at a granule.
  static constexpr std::size_t kSlotsOfDevice = 8;

  struct Slot {
    std::unique_ptr<Buffer> leaving;  // [max_tokens, most columns]; null where the device is the host
    std::unique_ptr<Buffer> staging;  // the same on the host
    ConstTensorView staged;           // what comes into it
    std::unique_ptr<Buffer> staged_positions;  // [max_tokens] i32 on the host; null where nothing is turned
    std::unique_ptr<Event> made, arrived;
    bool taken = false;
    bool leaves = false;  // a copy was queued that the host has not met the end of
  };
  // What one of the buffers of kept rows holds.
  struct Kept {
    std::int64_t layer = -1;
    std::int64_t first_token = 0;
    std::int64_t num_tokens = 0;
  };

  // `owner` tells one encoder's workspaces from another's. `backend` outlives this.
  static absl::StatusOr<std::unique_ptr<EncoderWorkspace>> Create(const void* owner, Backend& backend,
                                                                  const EncoderSizes& sizes,
                                                                  std::int64_t max_tokens);

  std::int64_t max_tokens() const override { return max_tokens_; }
  std::size_t max_pending() const override { return slots_.size(); }
  bool BelongsTo(const void* owner) const { return owner_ == owner; }

  // FAILED_PRECONDITION while all slots are taken. Nothing queued uses the slot any more.
  absl::StatusOr<Slot*> Take();
  static void GiveBack(Slot& slot) { slot.taken = false; }

  // [rows, columns] f32 on the device where the product of a code is to be made; the next code that is made
  // on the same stream may use it again.
  TensorView Codes(const Slot& slot, std::int64_t rows, std::int64_t columns) const;
  // Queues that the numbers, [rows, columns] f32 on the device, come into slot.staging; they may change for
  // what is queued on `stream` afterwards. integers: how they are to be packed, where they are.
  absl::Status Leave(Stream& stream, Slot& slot, const ConstTensorView& numbers,
                     const std::optional<GroupedIntegers>& integers);
  // Waits for them. [rows, columns] of the staging type on the host, or the bytes of integers that the device
  // packed, until the slot is given back.
  absl::StatusOr<ConstTensorView> Arrived(Slot& slot);
  absl::StatusOr<bool> HasArrived(const Slot& slot);

  const Buffer& positions() const { return *positions_; }  // [max_tokens] i32 on the device

  std::vector<Kept>& kept() { return kept_; }
  const std::vector<Kept>& kept() const { return kept_; }
  // [rows, hidden] f32 on the device.
  TensorView KeptRows(std::size_t index, std::int64_t rows) const {
    return kept_rows_[index]->View(DType::kF32, Shape{rows, sizes_.hidden});
  }

 private:
  EncoderWorkspace(const void* owner, Backend& backend, const EncoderSizes& sizes, std::int64_t max_tokens)
      : owner_(owner), backend_(backend), sizes_(sizes), max_tokens_(max_tokens), kept_(sizes.num_kept) {}

  absl::Status Allocate();
  absl::Status AllocateSlot(Slot& slot);
  bool on_host() const { return backend_.device() == Device::kHost; }

  const void* const owner_;
  Backend& backend_;
  const EncoderSizes sizes_;
  const std::int64_t max_tokens_;
  std::unique_ptr<Buffer> codes_;  // [max_tokens, most columns] f32; null where they are made in the slots
  std::unique_ptr<Buffer> positions_;
  std::vector<std::unique_ptr<Buffer>> kept_rows_;
  std::vector<Kept> kept_;
  std::vector<Slot> slots_;
  std::unique_ptr<Stream>
      copies_;  // last: its work ends before the memory goes; null where the device is the host
};

}  // namespace scd

#endif  // SCD_COMMON_TRANSLATE_ENCODER_WORKSPACE_H_
