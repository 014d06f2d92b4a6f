// The bundles that a producer serves, and the encoders that were packed for their plans.
#ifndef SCD_PRODUCER_ENCODER_CACHE_H_
#define SCD_PRODUCER_ENCODER_CACHE_H_

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/bundle/bundle.h"
#include "common/config/layer_plan.h"
#include "common/config/model_config.h"
#include "common/io/digest.h"
#include "common/translate/layer_encoder.h"
#include "kernels/backend.h"
#include "kernels/rope_table.h"

namespace scd {

// The bundles of one producer ("experts"), by digest. Immutable.
class BundleSet {
 public:
  // Opens every folder. FAILED_PRECONDITION for a bundle of another model, tokenizer or shape,
  // INVALID_ARGUMENT for one that is given twice; each with the folder.
  static absl::StatusOr<BundleSet> Open(absl::Span<const std::string> folders, const ModelConfig& config,
                                        const Digest& model, const Digest& tokenizer);

  // FAILED_PRECONDITION naming the bundles that there are.
  absl::StatusOr<const Bundle*> Find(const Digest& digest) const;
  const std::vector<std::unique_ptr<Bundle>>& bundles() const { return bundles_; }

 private:
  explicit BundleSet(std::vector<std::unique_ptr<Bundle>> bundles) : bundles_(std::move(bundles)) {}
  std::vector<std::unique_ptr<Bundle>> bundles_;
};

// An encoder ready to run: its packed weights and its memory.
struct ReadyEncoder {
  std::shared_ptr<const LayerEncoder> encoder;
  std::shared_ptr<LayerEncoder::Workspace> workspace;
};

// Least recently used of a bounded number. For one thread.
class EncoderCache {
 public:
  // Workspaces hold max_tokens rows. `rope`, the model's, and `backend` outlive this.
  EncoderCache(const RopeTable& rope, Backend& backend, std::int64_t max_tokens, std::int64_t max_entries)
      : rope_(rope),
        backend_(backend),
        max_tokens_(max_tokens),
        max_entries_(static_cast<std::size_t>(max_entries)) {}

  absl::StatusOr<ReadyEncoder> Get(const Bundle& bundle, const LayerPlan& plan);
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Digest bundle;
    ReadyEncoder ready;
  };

  const RopeTable rope_;
  Backend& backend_;
  const std::int64_t max_tokens_;
  const std::size_t max_entries_;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace scd

#endif  // SCD_PRODUCER_ENCODER_CACHE_H_
