#include "consumer/rebuilder_cache.h"

#include <algorithm>
#include <utility>

#include "kernels/dtype.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Tokens [begin, begin + count) of a code.
LayerCode Piece(const LayerCode& code, std::int64_t begin, std::int64_t count) {
  const std::size_t row_bytes = static_cast<std::size_t>(code.rank) * DTypeBytes(code.dtype);
  LayerCode piece;
  piece.layer = code.layer;
  piece.kind = code.kind;
  piece.first_token = code.first_token + begin;
  piece.num_tokens = count;
  piece.rank = code.rank;
  piece.dtype = code.dtype;
  piece.payload = code.payload.substr(static_cast<std::size_t>(begin) * row_bytes,
                                      static_cast<std::size_t>(count) * row_bytes);
  return piece;
}

}  // namespace

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
    return entry.layers == plan.layers && entry.code_dtype == plan.code_dtype;
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return &entries_.front();
  }
  Entry entry{plan.layers, plan.code_dtype, nullptr, nullptr};
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
  const PagedKv pages = sequence.view(code.layer);
  if (code.num_tokens <= max_rows_) {
    SCD_RETURN_IF_ERROR(entry->rebuilder->Rebuild(*entry->workspace, stream, code, pages));
  } else {
    for (std::int64_t begin = 0; begin < code.num_tokens; begin += max_rows_) {
      const LayerCode piece = Piece(code, begin, std::min(max_rows_, code.num_tokens - begin));
      SCD_RETURN_IF_ERROR(entry->rebuilder->Rebuild(*entry->workspace, stream, piece, pages));
    }
  }
  return transformer_.backend().Synchronize(stream);
}

}  // namespace scd
