#include "producer/encoder_cache.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

absl::Status WithFolder(const std::string& folder, const absl::Status& status) {
  if (status.ok() || status.message().find(folder) != absl::string_view::npos) return status;
  return absl::Status(status.code(), absl::StrCat(folder, ": ", status.message()));
}

absl::Status CheckShape(const BundleManifest& manifest, const ModelConfig& config) {
  struct Size {
    const char* name;
    std::int64_t bundle;
    std::int64_t model;
  };
  for (const Size& size : {Size{"num_layers", manifest.num_layers, config.num_layers},
                           Size{"hidden_size", manifest.hidden_size, config.hidden_size},
                           Size{"num_kv_heads", manifest.num_kv_heads, config.num_kv_heads},
                           Size{"head_dim", manifest.head_dim, config.head_dim}}) {
    if (size.bundle != size.model) {
      return absl::FailedPreconditionError(
          absl::StrCat("the bundle is for ", size.name, " ", size.bundle, ", the model has ", size.model));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BundleSet> BundleSet::Open(absl::Span<const std::string> folders, const ModelConfig& config,
                                          const Digest& model, const Digest& tokenizer) {
  std::vector<std::unique_ptr<Bundle>> bundles;
  for (const std::string& folder : folders) {
    auto opened = Bundle::Open(folder);
    SCD_RETURN_IF_ERROR(WithFolder(folder, opened.status()));
    const std::unique_ptr<Bundle>& bundle = *opened;
    SCD_RETURN_IF_ERROR(WithFolder(folder, bundle->CheckProducer(model, tokenizer)));
    SCD_RETURN_IF_ERROR(WithFolder(folder, CheckShape(bundle->manifest(), config)));
    for (const std::unique_ptr<Bundle>& other : bundles) {
      if (other->digest() == bundle->digest()) {
        return absl::InvalidArgumentError(absl::StrCat(folder, ": is the same bundle as ", other->folder(),
                                                       " (", bundle->digest().ToHex(), ")"));
      }
    }
    bundles.push_back(*std::move(opened));
  }
  return BundleSet(std::move(bundles));
}

absl::StatusOr<const Bundle*> BundleSet::Find(const Digest& digest) const {
  for (const std::unique_ptr<Bundle>& bundle : bundles_) {
    if (bundle->digest() == digest) return bundle.get();
  }
  const auto hex = [](std::string* out, const std::unique_ptr<Bundle>& bundle) {
    absl::StrAppend(out, bundle->digest().ToHex());
  };
  return absl::FailedPreconditionError(absl::StrCat("bundle_digest: this producer has no bundle ",
                                                    digest.ToHex(), "; it has ",
                                                    absl::StrJoin(bundles_, ", ", hex)));
}

absl::StatusOr<ReadyEncoder> EncoderCache::Get(const Bundle& bundle, const LayerPlan& plan) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.bundle == bundle.digest() && entry.ready.encoder->plan().SendsAs(plan);
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().ready;
  }
  SCD_ASSIGN_OR_RETURN(std::shared_ptr<const LayerEncoder> encoder,
                       LayerEncoder::Create(bundle, plan, rope_, backend_));
  SCD_ASSIGN_OR_RETURN(std::shared_ptr<LayerEncoder::Workspace> workspace,
                       encoder->CreateWorkspace(max_tokens_));
  entries_.push_front({bundle.digest(), {std::move(encoder), std::move(workspace)}});
  if (entries_.size() > max_entries_) entries_.pop_back();
  return entries_.front().ready;
}

}  // namespace scd
