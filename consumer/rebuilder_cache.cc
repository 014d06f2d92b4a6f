#include "consumer/rebuilder_cache.h"

#include <algorithm>
#include <utility>

#include "kernels/status_macros.h"

namespace scd {
RebuilderCache::RebuilderCache(const Bundle& bundle, const Transformer& transformer, std::int64_t capacity,
                               std::int64_t max_rows)
    : bundle_(bundle),
      transformer_(transformer),
      capacity_(std::max<std::int64_t>(capacity, 1)),
      max_rows_(std::max<std::int64_t>(max_rows, 1)) {
  const std::int64_t num_layers = transformer.config().num_layers;
  projections_.reserve(static_cast<std::size_t>(num_layers));
  for (std::int64_t layer = 0; layer < num_layers; ++layer)
    projections_.push_back(transformer.kv_projection(layer));
}

absl::Status RebuilderCache::Prepare(const LayerPlan& plan) {
  return Find(plan).status();
}

absl::StatusOr<RebuilderCache::Entry*> RebuilderCache::Find(const LayerPlan& plan) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&plan](const Entry& entry) {
    return entry.rebuilder->plan().SendsAs(plan);
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return &entries_.front();
  }
  Entry entry;
  SCD_ASSIGN_OR_RETURN(entry.rebuilder, LayerRebuilder::Create(bundle_, plan, projections_,
                                                               transformer_.rope(), transformer_.backend()));
  SCD_ASSIGN_OR_RETURN(entry.workspace, entry.rebuilder->CreateWorkspace(max_rows_));
  entries_.push_front(std::move(entry));
  if (size() > capacity_) entries_.pop_back();
  return &entries_.front();
}

absl::Status RebuilderCache::Rebuild(const LayerPlan& plan, const LayerCode& code, const Sequence& sequence,
                                     Stream& stream) {
  SCD_ASSIGN_OR_RETURN(Entry * entry, Find(plan));
  return entry->rebuilder->Rebuild(*entry->workspace, stream, code,
                                   [&](std::int64_t layer) { return sequence.view(layer); });
}

}  // namespace scd
