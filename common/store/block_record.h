// One block of codes as bytes, for files and servers: docs/formats.md has the layout.
//
// A record names its own key and ends with a digest over everything before it, so that a reader knows a
// record that is damaged, cut short or another's. Digests find mistakes and decay, not forgery: whoever may
// write to the place may put codes there.
#ifndef SCD_COMMON_STORE_BLOCK_RECORD_H_
#define SCD_COMMON_STORE_BLOCK_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/io/digest.h"
#include "common/store/code_block.h"

namespace scd {

inline constexpr std::uint32_t kBlockRecordVersion = 1;

// Of what SerializeBlock gives.
std::size_t BlockRecordBytes(const CodeBlock& block);

// num_tokens is 1 to 2^31 - 1; each payload is under 4 GiB.
std::string SerializeBlock(const Digest& key, const CodeBlock& block);

// The block, whose payloads lie in `bytes`, which `owner` keeps alive. FAILED_PRECONDITION where it is a
// record of another version or under another key; DATA_LOSS for everything else that SerializeBlock does not
// write. Takes no more memory than `bytes` does, whatever they claim.
absl::StatusOr<std::shared_ptr<const CodeBlock>> ParseBlock(const Digest& key, absl::string_view bytes,
                                                            std::shared_ptr<const void> owner);

}  // namespace scd

#endif  // SCD_COMMON_STORE_BLOCK_RECORD_H_
