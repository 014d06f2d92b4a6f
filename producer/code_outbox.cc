#include "producer/code_outbox.h"

#include <utility>
#include <vector>

#include "common/wire/frame_codec.h"

namespace scd {

void CodeOutbox::Add(v1::PrefillHeader header) {
  v1::PrefillResponse message;
  *message.mutable_header() = std::move(header);
  waiting_.emplace_back(std::move(message));
}

void CodeOutbox::Add(LayerCode code) {
  for (v1::CodeFrame& frame : ToFrames(std::move(code))) {
    v1::PrefillResponse message;
    *message.mutable_frame() = std::move(frame);
    waiting_.emplace_back(std::move(message));
  }
}

void CodeOutbox::Add(const LayerPlan& plan, StoredCodes codes) {
  if (codes.blocks.empty()) return;
  waiting_.emplace_back(StoredCodeReader(plan, std::move(codes), kMaxFramePayloadBytes));
}

bool CodeOutbox::Next(v1::PrefillResponse* message) {
  while (!waiting_.empty() && std::holds_alternative<StoredCodeReader>(waiting_.front())) {
    LayerCode code;
    if (!std::get<StoredCodeReader>(waiting_.front()).Next(&code)) {
      waiting_.pop_front();
      continue;
    }
    // One frame, but for a block that is larger than a frame may be.
    std::vector<v1::CodeFrame> frames = ToFrames(std::move(code));
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      v1::PrefillResponse made;
      *made.mutable_frame() = std::move(*frame);
      waiting_.emplace_front(std::move(made));
    }
  }
  if (waiting_.empty()) return false;
  *message = std::move(std::get<v1::PrefillResponse>(waiting_.front()));
  waiting_.pop_front();
  if (message->has_frame()) {
    ++num_frames_;
    payload_bytes_ += static_cast<std::int64_t>(message->frame().payload().size());
  }
  return true;
}

}  // namespace scd
