// Writes bundles so that a reader only ever sees whole ones.
#ifndef SCD_COMMON_BUNDLE_BUNDLE_WRITER_H_
#define SCD_COMMON_BUNDLE_BUNDLE_WRITER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bundle/manifest.h"
#include "common/io/digest.h"
#include "common/io/safetensors.h"

namespace scd {

// Writes `folder` with `manifest` (its tensors_digest is filled in here) and exactly the tensors that
// BundleTensors names, f32. Everything is written into a temporary folder beside it, flushed to disk, opened
// and checked as a daemon would, and renamed; a bundle that is there already is replaced in the same step.
// Whatever fails, `folder` is as it was and nothing stays beside it. Returns the bundle's digest.
//
// INVALID_ARGUMENT for a manifest or tensors that Bundle::Open would refuse; FAILED_PRECONDITION where
// `folder` is something else than a bundle or an empty folder, which is never removed; what the file system
// says otherwise.
absl::StatusOr<Digest> WriteBundle(const std::string& folder, BundleManifest manifest,
                                   const std::vector<NamedTensor>& tensors);

}  // namespace scd

#endif  // SCD_COMMON_BUNDLE_BUNDLE_WRITER_H_
