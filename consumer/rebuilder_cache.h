// The rebuilders of the plans in use, with their working memory: packing a plan's decoders takes a while, and
// most requests share one plan. Holds the most recently used ones. For one thread.
#ifndef SCD_CONSUMER_REBUILDER_CACHE_H_
#define SCD_CONSUMER_REBUILDER_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bundle/bundle.h"
#include "common/cache/sequence.h"
#include "common/config/layer_plan.h"
#include "common/model/transformer.h"
#include "common/translate/layer_rebuilder.h"

namespace scd {

class RebuilderCache {
 public:
  // `bundle` and `transformer` outlive this. capacity >= 1 plans; max_rows >= 1 are rebuilt at once, codes of
  // more tokens in pieces.
  RebuilderCache(const Bundle& bundle, const Transformer& transformer, std::int64_t capacity,
                 std::int64_t max_rows = 512);

  // Makes the plan's rebuilder ready; INVALID_ARGUMENT for a plan that the bundle cannot do.
  absl::Status Prepare(const LayerPlan& plan);

  // Queues on `stream` that one code of `plan` is rebuilt into the pages of its layer. The code may go away.
  absl::Status Rebuild(const LayerPlan& plan, const LayerCode& code, const Sequence& sequence,
                       Stream& stream);

  std::int64_t size() const { return static_cast<std::int64_t>(entries_.size()); }

 private:
  struct Entry {
    std::unique_ptr<LayerRebuilder> rebuilder;
    std::unique_ptr<LayerRebuilder::Workspace> workspace;
  };

  absl::StatusOr<Entry*> Find(const LayerPlan& plan);

  const Bundle& bundle_;
  const Transformer& transformer_;
  const std::int64_t capacity_;
  const std::int64_t max_rows_;
  std::vector<KvProjection> projections_;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace scd

#endif  // SCD_CONSUMER_REBUILDER_CACHE_H_
