#include "common/translate/group_decoder.h"

#include <vector>

#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::unique_ptr<PackedWeight>> PackGroupDecoder(const Bundle& bundle, const LayerRange& layers,
                                                               std::int64_t columns, Backend& backend) {
  const std::int64_t d_kv = bundle.manifest().d_kv();
  std::vector<float> weight, bias;
  for (std::int64_t layer = layers.first; layer <= layers.last; ++layer) {
    SCD_ASSIGN_OR_RETURN(const FusedTranslator fused, bundle.Fused(layer));
    for (std::int64_t r = 0; r < 2 * d_kv; ++r) {
      const float* const row = fused.decoder.row<float>(r);
      weight.insert(weight.end(), row, row + columns);
    }
    const float* const of_layer = fused.decoder_bias.as<float>();
    bias.insert(bias.end(), of_layer, of_layer + 2 * d_kv);
  }
  const auto rows = static_cast<std::int64_t>(bias.size());
  std::vector<std::int64_t> cuts;
  for (std::int64_t cut = d_kv; cut < rows; cut += d_kv) cuts.push_back(cut);
  return backend.PackWeight(ConstTensorView(weight.data(), DType::kF32, Shape{rows, columns}),
                            ConstTensorView(bias.data(), DType::kF32, Shape{rows}), {.cuts = cuts});
}

}  // namespace scd
