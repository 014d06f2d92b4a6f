#include "producer/shared_prefixes.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace scd {

bool SharedPrefixes::Stores(const PrefillInput& input) const {
  return store_ != nullptr && !input.code_keys.empty() && CodeCollector::CanCut(input.plan, page_tokens()) &&
         chunk_tokens_ >= PlanGranule(input.plan);
}

std::int64_t SharedPrefixes::NextBlock(const PrefillEntry& entry) const {
  const std::int64_t block = entry.position / page_tokens();
  const auto num_blocks = static_cast<std::int64_t>(entry.job->input().page_keys.size());
  return share_pages_ && entry.position % page_tokens() == 0 && block < num_blocks ? block : -1;
}

StoredCodes SharedPrefixes::TakeKnown(PrefillEntry& entry) {
  StoredCodes codes = std::exchange(entry.known, {});
  const std::int64_t num_tokens = codes.num_tokens();
  entry.coded_end += num_tokens;
  entry.report.num_stored_tokens += num_tokens;
  return codes;
}

StoredCodes SharedPrefixes::Take(PrefillEntry& entry) {
  const PrefillInput& input = entry.job->input();
  const std::int64_t block = NextBlock(entry);
  if (block < 0) return {};
  const absl::Span<const Digest> page_keys = input.page_keys;
  std::int64_t end = cache_.CountKnown(page_keys);
  if (end <= block) return {};
  const std::int64_t coded = entry.coded_end / page_tokens();
  StoredCodes codes;
  if (end > coded) {
    // Codes without pages are of no use here, so they are not asked for.
    const std::int64_t first_coded = input.first_token / page_tokens();
    const auto first = static_cast<std::size_t>(coded - first_coded);
    const auto wanted = std::min(input.code_keys.size(), static_cast<std::size_t>(end - first_coded));
    if (store_ != nullptr && first < wanted) {
      codes = CodesOf(input.plan, entry.coded_end,
                      store_->FindAtOnce(absl::MakeConstSpan(input.code_keys).first(wanted), first),
                      page_tokens());
    }
    end = coded + static_cast<std::int64_t>(codes.blocks.size());
    if (end <= block) return {};
  }
  const std::int64_t end_token = end * page_tokens();
  auto sequence = Sequence::Create(cache_, {.max_tokens = end_token,
                                            .prefix = page_keys.first(static_cast<std::size_t>(end)),
                                            .max_prefix_tokens = end_token});
  if (!sequence.ok() || (*sequence)->valid_length() < end_token) return {};
  entry.sequence = *std::move(sequence);
  entry.report.num_cached_tokens += end_token - entry.position;
  entry.report.num_stored_tokens += codes.num_tokens();
  entry.position = end_token;
  entry.coded_end = std::max(entry.coded_end, end_token);
  entry.collector.reset();
  return codes;
}

bool SharedPrefixes::KnownAfterNext(const PrefillEntry& entry) const {
  const PrefillInput& input = entry.job->input();
  const std::int64_t block = NextBlock(entry);
  // Beyond the first block with codes a block can only follow those that are known.
  if (block < 0 || block != input.first_token / page_tokens() || input.code_keys.size() < 2) return false;
  return store_ != nullptr && entry.coded_end == input.first_token &&
         cache_.CountKnown(input.page_keys) > block + 1 &&
         !store_->FindAtOnce(absl::MakeConstSpan(input.code_keys).first(2), 1).empty();
}

bool SharedPrefixes::Computes(const PrefillEntry& leader, const PrefillEntry& follower) const {
  const std::int64_t next = NextBlock(follower);
  if (next < 0) return false;
  const PrefillInput& lead = leader.job->input();
  const PrefillInput& follow = follower.job->input();
  const auto block = static_cast<std::size_t>(next);
  if (block >= lead.page_keys.size() || lead.page_keys[block] != follow.page_keys[block]) return false;
  if (leader.position < follower.position || leader.position >= (next + 1) * page_tokens()) return false;
  if (next < follower.coded_end / page_tokens()) return true;
  const auto first_coded = static_cast<std::size_t>(follow.first_token / page_tokens());
  const auto first_lead = static_cast<std::size_t>(lead.first_token / page_tokens());
  return block >= first_lead && Stores(lead) && block - first_lead < lead.code_keys.size() &&
         block - first_coded < follow.code_keys.size() &&
         lead.code_keys[block - first_lead] == follow.code_keys[block - first_coded];
}

void SharedPrefixes::Publish(PrefillEntry& entry) {
  const PrefillInput& input = entry.job->input();
  if (share_pages_ && !input.page_keys.empty()) entry.sequence->Publish(input.page_keys, entry.position);
  if (!entry.collector.has_value()) return;
  for (std::shared_ptr<const CodeBlock>& block : entry.collector->TakeBlocks()) {
    if (entry.next_code_block == input.code_keys.size()) return;
    store_->Insert(absl::MakeConstSpan(input.code_keys).first(++entry.next_code_block), std::move(block));
  }
}

}  // namespace scd
