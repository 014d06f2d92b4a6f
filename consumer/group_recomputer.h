// Recomputes a group of layers from the producer's residual stream: this model's own layers run over the rows
// that would have entered the first of them (selective recompute, as DroidSpeak does). For one thread.
#ifndef SCD_CONSUMER_GROUP_RECOMPUTER_H_
#define SCD_CONSUMER_GROUP_RECOMPUTER_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "common/cache/sequence.h"
#include "common/config/layer_plan.h"
#include "common/model/transformer.h"
#include "common/wire/layer_code.h"

namespace scd {

class GroupRecomputer {
 public:
  // `transformer` outlives this. max_rows >= 1 rows run at once, codes of more tokens in pieces. The memory
  // for them is taken at the first Run.
  explicit GroupRecomputer(const Transformer& transformer, std::int64_t max_rows = 512)
      : transformer_(transformer), max_rows_(max_rows) {}

  // `code`: residual stream (kResidual, [num_tokens, hidden], checked by the frame codec) entering
  // group.first. Writes K and V of the group's layers at the code's positions; those before them must hold K
  // and V in these layers. Complete when it returns; CANCELLED within one layer after `cancel` stops.
  absl::Status Run(const LayerCode& code, const LayerRange& group, Sequence& sequence,
                   std::stop_token cancel);

 private:
  const Transformer& transformer_;
  const std::int64_t max_rows_;
  std::unique_ptr<Transformer::Workspace> workspace_;
  std::vector<float> rows_;
};

}  // namespace scd

#endif  // SCD_CONSUMER_GROUP_RECOMPUTER_H_
