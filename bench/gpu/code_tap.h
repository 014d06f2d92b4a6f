// Makes codes of what a prefill shows, layer by layer, as the producer does.
#ifndef SCD_BENCH_GPU_CODE_TAP_H_
#define SCD_BENCH_GPU_CODE_TAP_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/model/code_rows.h"
#include "common/model/layer_tap.h"
#include "common/translate/layer_encoder.h"
#include "common/wire/payload_format.h"
#include "kernels/status_macros.h"

namespace scd {

class CodeTap final : public LayerTap {
 public:
  // Of positions [begin, end), which one pass computes, from `first` on. All outlive this.
  CodeTap(const LayerEncoder& encoder, LayerEncoder::Workspace& workspace, std::int64_t begin,
          std::int64_t end, std::int64_t first, std::vector<LayerCode>& codes)
      : encoder_(encoder),
        workspace_(workspace),
        begin_(begin),
        end_(end),
        first_(std::max(begin, first)),
        codes_(codes) {}

  TapKinds Wanted(std::int64_t layer) const override {
    TapKinds wanted;
    for (const SentKind& sent : Sent(layer)) wanted = wanted | TapFor(sent.kind);
    return wanted;
  }

  absl::Status OnLayer(const LayerView& view) override {
    for (const SentKind& sent : Sent(view.layer)) {
      for (std::int64_t begin = first_; begin < end_;) {
        const std::int64_t end = EndOfCode(encoder_.plan().codec, sent.kind, begin, end_);
        SCD_ASSIGN_OR_RETURN(
            LayerCode code,
            encoder_.Encode(workspace_, *view.stream, view.layer, sent.kind,
                            RowsFor(sent.kind, view).rows(begin - begin_, end - begin), begin));
        codes_.push_back(std::move(code));
        begin = end;
      }
    }
    return absl::OkStatus();
  }

 private:
  std::vector<SentKind> Sent(std::int64_t layer) const {
    return SentKinds(encoder_.plan().layers[static_cast<std::size_t>(layer)]);
  }

  const LayerEncoder& encoder_;
  LayerEncoder::Workspace& workspace_;
  const std::int64_t begin_, end_, first_;
  std::vector<LayerCode>& codes_;
};

}  // namespace scd

#endif  // SCD_BENCH_GPU_CODE_TAP_H_
