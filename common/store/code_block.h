// A block of codes: what one run of consecutive tokens gives for every column of a plan, as stores keep it.
#ifndef SCD_COMMON_STORE_CODE_BLOCK_H_
#define SCD_COMMON_STORE_CODE_BLOCK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/config/layer_plan.h"

namespace scd {

// Codes of one layer and kind that a plan sends, in the order in which they are sent.
struct CodeColumn {
  std::int64_t layer = 0;
  CodeKind kind = CodeKind::kK;
  std::int64_t rank = 0;
};
std::vector<CodeColumn> PlanColumns(const LayerPlan& plan);

// Immutable once shared. Payloads are views, so that a mapped file or a reply of the network is used as it
// is.
struct CodeBlock {
  std::int64_t num_tokens = 0;
  absl::Time created = absl::UnixEpoch();   // when the codes were made, in whole milliseconds
  std::vector<absl::string_view> payloads;  // one for each column, as the codec writes num_tokens tokens
  std::shared_ptr<const void> owner;        // of the memory that the payloads lie in

  std::int64_t size_bytes() const;  // of the payloads and their bookkeeping
};

// A block that owns its payloads.
std::shared_ptr<const CodeBlock> MakeCodeBlock(std::int64_t num_tokens, std::vector<std::string> payloads,
                                               absl::Time created = absl::Now());
// The same block in memory of its own, one piece: whatever the payloads lay in may go.
std::shared_ptr<const CodeBlock> CopyToMemory(const CodeBlock& block);

}  // namespace scd

#endif  // SCD_COMMON_STORE_CODE_BLOCK_H_
