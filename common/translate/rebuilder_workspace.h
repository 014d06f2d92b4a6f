// Memory that LayerRebuilder works in: codes on their way to the device, and the device's intermediate
// tensors.
//
// A backend whose device is the host reads codes where they lie. For another one they go through a ring of
// slots, each with staging memory and memory of the device, on a stream of their own: the host writes the
// next codes and they are copied while the device still works on those before. A slot is written again when
// its copy has ended, which the host waits for where the ring is full, and copied into again when the work
// with it has ended, which the copying stream waits for.
#ifndef SCD_COMMON_TRANSLATE_REBUILDER_WORKSPACE_H_
#define SCD_COMMON_TRANSLATE_REBUILDER_WORKSPACE_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/translate/layer_rebuilder.h"
#include "common/wire/entropy_coder.h"
#include "common/wire/layer_code.h"
#include "kernels/backend.h"

namespace scd {

// Widths of the rows that a plan needs.
struct RebuilderWidths {
  std::int64_t most_columns = 0;  // of codes, as they arrive
  std::int64_t d_kv = 0;
  std::int64_t inner = 0;  // of what Patch layers compute on the way; 0 without them
  Codec codec = Codec::kBF16;
};

class RebuilderWorkspace : public LayerRebuilder::Workspace {
 public:
  // `owner` tells one rebuilder's workspaces from another's. `backend` outlives this.
  static absl::StatusOr<std::unique_ptr<RebuilderWorkspace>> Create(const void* owner, Backend& backend,
                                                                    const RebuilderWidths& widths,
                                                                    std::int64_t max_tokens);

  std::int64_t max_tokens() const override { return max_tokens_; }
  bool BelongsTo(const void* owner) const { return owner_ == owner; }

  // Work queued on `stream` after Begin and before End may use the tensors below, whatever stream the work
  // before was queued on.
  absl::Status Begin(Stream& stream);
  absl::Status End(Stream& stream);

  // Brings tokens [begin, begin + count) of the code's payload and their positions to the device, as f32 or,
  // with keep_bf16, in the type of the codec. entropy: the coder of the code; null for codecs of fixed size.
  // The payload was checked to hold [num_tokens, rank] and stays where it is until the work that is queued
  // with it was queued.
  absl::Status Upload(Stream& stream, const LayerCode& code, const EntropyCoder* entropy, std::int64_t begin,
                      std::int64_t count, bool keep_bf16);

  // What Upload brought.
  ConstTensorView codes() const { return codes_; }          // [count, rank] f32 or bf16
  ConstTensorView positions() const { return positions_; }  // [count] i32

  // Columns of one tensor, K before V.
  TensorView k(std::int64_t rows) const {
    return Rows(*kv_, rows, 2 * widths_.d_kv).columns(0, widths_.d_kv);
  }
  TensorView v(std::int64_t rows) const {
    return Rows(*kv_, rows, 2 * widths_.d_kv).columns(widths_.d_kv, widths_.d_kv);
  }
  // width: at most the widths' inner.
  TensorView inner(std::int64_t rows, std::int64_t width) const { return Rows(*inner_, rows, width); }

 private:
  struct Slot {
    std::unique_ptr<Buffer> staged_codes;      // [max_tokens, most columns] of the codec's staging type
    std::unique_ptr<Buffer> staged_positions;  // [max_tokens] i32
    std::unique_ptr<Buffer> codes, positions;  // the same on the device
    std::unique_ptr<Event> copied, used;
  };

  RebuilderWorkspace(const void* owner, Backend& backend, const RebuilderWidths& widths,
                     std::int64_t max_tokens)
      : owner_(owner), backend_(backend), widths_(widths), max_tokens_(max_tokens) {}

  absl::Status Allocate();
  absl::Status AllocateSlot(Slot& slot);
  // A slot whose staging memory nothing reads any more. Work with the slot before was queued on `stream` to
  // its end.
  absl::StatusOr<Slot*> NextSlot(Stream& stream);
  absl::Status EndSlot(Stream& stream);
  absl::Status UploadThroughSlot(Stream& stream, const LayerCode& code, const EntropyCoder* entropy,
                                 std::int64_t begin, std::int64_t count, bool keep_bf16);
  static void FillPositions(const TensorView& positions, std::int64_t first);
  // The payload's numbers from `begin` on, or f32 numbers made from them in `memory`.
  absl::StatusOr<ConstTensorView> Numbers(const LayerCode& code, const EntropyCoder* entropy,
                                          std::int64_t begin, std::int64_t count, const Buffer& memory) const;
  static TensorView Rows(const Buffer& buffer, std::int64_t rows, std::int64_t width) {
    return buffer.View(DType::kF32, Shape{rows, width});
  }

  const void* const owner_;
  Backend& backend_;
  const RebuilderWidths widths_;
  const std::int64_t max_tokens_;
  std::unique_ptr<Event> done_;  // of the last End
  bool used_ = false;
  std::array<Slot, 4> ring_;  // empty where the device is the host
  std::size_t next_slot_ = 0;
  Slot* slot_ = nullptr;                    // that the work being queued uses
  std::unique_ptr<Buffer> codes_as_f32_;    // [max_tokens, most columns] f32
  std::unique_ptr<Buffer> host_positions_;  // null unless the device is the host
  std::unique_ptr<Buffer> kv_, inner_;
  ConstTensorView codes_, positions_;
  std::unique_ptr<Stream>
      copies_;  // last: its work ends before the memory goes; null where the device is the host
};

}  // namespace scd

#endif  // SCD_COMMON_TRANSLATE_REBUILDER_WORKSPACE_H_
