// What HeldOutEvaluator keeps of each prefix and of the bundle in use; for its own sources.
#ifndef SCD_CALIBRATE_HELD_OUT_ITEM_H_
#define SCD_CALIBRATE_HELD_OUT_ITEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "calibrate/held_out_evaluator.h"
#include "calibrate/residual_rows.h"
#include "common/cache/sequence.h"
#include "common/translate/layer_rebuilder.h"
#include "common/wire/layer_code.h"

namespace scd {

struct HeldOutEvaluator::Item {
  std::int64_t prefix = 0;
  absl::Span<const std::int32_t> ids;
  std::int64_t begin = 0;  // transferred positions: [begin, end)
  std::int64_t end = 0;
  std::int64_t first_scored = 0;  // the prompt's last position, whose logits are the first that are scored
  std::unique_ptr<Sequence> sequence;
  std::vector<StateSource> sources;  // what the pages hold
  std::map<std::pair<std::int64_t, CodeKind>, LayerCode> codes;
  ResidualRows residuals;     // the producer's, of positions [0, end)
  std::vector<float> oracle;  // [scored rows, vocabulary], log-probabilities

  std::int64_t transferred() const { return end - begin; }
  std::int64_t native_rows() const { return static_cast<std::int64_t>(ids.size()) - end; }
  std::int64_t scored_rows() const { return static_cast<std::int64_t>(ids.size()) - first_scored; }
};

struct HeldOutEvaluator::Coding {
  std::unique_ptr<LayerRebuilder> reuse;
  std::unique_ptr<LayerRebuilder::Workspace> reuse_workspace;
  std::unique_ptr<LayerRebuilder> patch;  // null where the bundle has no candidates
  std::unique_ptr<LayerRebuilder::Workspace> patch_workspace;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_HELD_OUT_ITEM_H_
