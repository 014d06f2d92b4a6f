#include "consumer/group_recomputer.h"

#include <algorithm>

#include "common/wire/payload_numbers.h"
#include "kernels/status_macros.h"

namespace scd {

absl::Status GroupRecomputer::Run(const LayerCode& code, const LayerRange& group, Sequence& sequence,
                                  std::stop_token cancel) {
  if (workspace_ == nullptr) {
    SCD_ASSIGN_OR_RETURN(workspace_, transformer_.CreateWorkspace(max_rows_, 0));
  }
  for (std::int64_t begin = 0; begin < code.num_tokens; begin += max_rows_) {
    const std::int64_t count = std::min(max_rows_, code.num_tokens - begin);
    rows_.resize(static_cast<std::size_t>(count * code.rank));
    DecodeNumbers(code, begin, count, rows_.data());
    const LayerChunk chunk{.sequence = &sequence,
                           .residual = ConstTensorView(rows_.data(), DType::kF32, Shape{count, code.rank}),
                           .first_position = code.first_token + begin,
                           .first_layer = group.first,
                           .last_layer = group.last};
    SCD_RETURN_IF_ERROR(transformer_.ForwardLayers(*workspace_, chunk, {.tap = nullptr, .cancel = cancel}));
  }
  return absl::OkStatus();
}

}  // namespace scd
