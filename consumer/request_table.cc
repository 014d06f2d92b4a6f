#include "consumer/request_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace scd {

std::deque<std::unique_ptr<ActiveRequest>>::iterator RequestTable::InQueue(EngineRequestId id) {
  return std::find_if(queue_.begin(), queue_.end(),
                      [id](const auto& request) { return request->id() == id; });
}

ActiveRequest* RequestTable::Find(EngineRequestId id) {
  if (const auto it = admitted_.find(id); it != admitted_.end()) return it->second.get();
  const auto queued = InQueue(id);
  return queued == queue_.end() ? nullptr : queued->get();
}

std::unique_ptr<ActiveRequest> RequestTable::Take(EngineRequestId id) {
  std::unique_ptr<ActiveRequest> request;
  if (const auto it = admitted_.find(id); it != admitted_.end()) {
    request = std::move(it->second);
    admitted_.erase(it);
    in_making_.Drop(id);
    swapped_.erase(id);
    CountSwapped();
    return request;
  }
  const auto queued = InQueue(id);
  if (queued == queue_.end()) return nullptr;
  request = std::move(*queued);
  queue_.erase(queued);
  return request;
}

std::vector<EngineRequestId> RequestTable::AllIds() const {
  std::vector<EngineRequestId> ids;
  for (const auto& request : queue_) ids.push_back(request->id());
  for (const auto& [id, request] : admitted_) ids.push_back(id);
  return ids;
}

void RequestTable::Resume() {
  while (!swapped_.empty()) {
    const EngineRequestId id = swapped_.begin()->first;
    Sequence& sequence = admitted_.at(id)->sequence();
    // A page for each that decodes meanwhile, so that it does not have to go again at once.
    const auto growing = std::count_if(admitted_.begin(), admitted_.end(), [](const auto& entry) {
      return entry.second->decoding() && entry.second->has_pages();
    });
    if (cache_.PagesFor(sequence.max_tokens()) + growing > cache_.num_available_pages()) return;
    if (!sequence.SwapIn().ok()) return;
    swapped_.erase(id);
    CountSwapped();
  }
}

bool RequestTable::WaitsForBlocks(ActiveRequest& request, Clock::time_point now) const {
  const auto& keys = request.block_keys();
  if (in_making_.empty() || keys.empty()) return false;
  const auto known = static_cast<std::size_t>(cache_.CountKnown(keys));
  if (known == keys.size() || !in_making_.IsBeingMade(keys[known])) return false;
  return now < request.WaitForBlocks(now);
}

bool RequestTable::CanEndBeside(const ActiveRequest& request) const {
  if (admitted_.empty()) return true;
  const std::int64_t page_tokens = cache_.layout().page_tokens;
  std::int64_t together = 0;
  std::int64_t longest = 0;
  std::int64_t being_rebuilt = 0;
  const auto add = [&](const ActiveRequest& one) {
    together += MostPages(one);
    longest = std::max(longest, MostPages(one));
    if (one.being_rebuilt()) {
      being_rebuilt += cache_.PagesFor(one.PagesAtAdmission(page_tokens).max_tokens);
    }
  };
  add(request);
  for (const auto& [id, admitted] : admitted_) add(*admitted);
  const std::int64_t but_the_oldest = together - MostPages(*admitted_.begin()->second);
  return (together <= cache_.num_pages() || but_the_oldest <= swap_pages()) &&
         longest + being_rebuilt <= cache_.num_pages();
}

std::optional<RequestTable::Admission> RequestTable::AdmitNext(Clock::time_point now) {
  if (!swapped_.empty()) return std::nullopt;
  for (auto it = queue_.begin(); it != queue_.end(); ++it) {
    ActiveRequest& request = **it;
    if (WaitsForBlocks(request, now)) continue;
    if (!CanEndBeside(request)) return std::nullopt;
    absl::StatusOr<std::unique_ptr<Sequence>> made =
        Sequence::Create(cache_, request.PagesAtAdmission(cache_.layout().page_tokens));
    if (absl::IsResourceExhausted(made.status())) return std::nullopt;
    if (!made.ok()) return Admission{&request, made.status()};
    // The last share may go on a writer's thread: the pages that it frees may be what the queue waits for.
    std::shared_ptr<Sequence> sequence(made->release(), [freed = pages_freed_](Sequence* s) {
      delete s;
      freed();
    });
    const std::int64_t known = sequence->valid_length() / cache_.layout().page_tokens;
    const auto& keys = request.block_keys();
    in_making_.Claim(request.id(), absl::MakeConstSpan(keys).subspan(
                                       std::min(keys.size(), static_cast<std::size_t>(known))));
    admitted_.emplace(request.id(), std::move(*it));
    queue_.erase(it);
    return Admission{&request, std::move(sequence)};
  }
  return std::nullopt;
}

std::optional<RequestTable::Clock::time_point> RequestTable::NextDeadline(Clock::time_point now) const {
  std::optional<Clock::time_point> next;
  for (const auto& request : queue_) {
    const auto deadline = request->waits_for_blocks_until();
    if (deadline && *deadline > now && (!next || *deadline < *next)) next = deadline;
  }
  return next;
}

ActiveRequest* RequestTable::YoungestAfter(EngineRequestId id) {
  for (auto it = admitted_.rbegin(); it != admitted_.rend() && it->first > id; ++it) {
    if (it->second->preemptible()) return it->second.get();
  }
  return nullptr;
}

bool RequestTable::OthersHavePages(EngineRequestId id, bool younger) const {
  return std::any_of(admitted_.begin(), admitted_.end(), [&](const auto& entry) {
    return entry.first != id && entry.second->has_pages() && (!younger || entry.first > id);
  });
}

bool RequestTable::MakeRoom(ActiveRequest& request, std::vector<Ended>& ended) {
  for (;;) {
    const absl::Status status = request.sequence().Reserve(request.next_position() + 1);
    if (status.ok()) return true;
    if (!absl::IsResourceExhausted(status)) {
      ended.push_back({request.id(), status});
      return false;
    }
    ActiveRequest* victim = YoungestAfter(request.id());
    if (victim == nullptr) {
      // A younger one that is being rebuilt can be moved away soon. Where nobody else has pages, writers of
      // requests that have ended hold them a little longer.
      if (OthersHavePages(request.id(), true) || !OthersHavePages(request.id(), false)) return false;
      victim = &request;
    }
    absl::StatusOr<ByteBudget::Lease> room = swap_.Take(victim->sequence().swap_bytes());
    if (!room.ok())
      return false;  // writers of requests that have ended hold pages, and will call pages_freed_
    const EngineRequestId id = victim->id();
    if (const absl::Status moved = MoveAway(*victim, *std::move(room)); !moved.ok()) {
      victim->ReleasePages();
      ended.push_back({id, moved});
    }
    if (id == request.id()) return false;
  }
}

absl::Status RequestTable::MoveAway(ActiveRequest& request, ByteBudget::Lease room) {
  in_making_.Drop(request.id());
  const std::int64_t bytes = request.sequence().swap_bytes();
  if (const absl::Status status = request.sequence().SwapOut(); !status.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("kv_cache.swap_mib: the KV cache is full, and a request's ", bytes,
                     " bytes cannot be moved to host memory (", status.message(),
                     "): give it more pages (kv_cache.memory_mib) or ask for fewer tokens at a time"));
  }
  swapped_.emplace(request.id(), std::move(room));
  ++preemptions_;
  swapped_bytes_ += bytes;
  CountSwapped();
  return absl::OkStatus();
}

void RequestTable::PublishBlocks(ActiveRequest& request) {
  if (request.block_keys().empty() || !request.has_pages()) return;
  request.sequence().Publish(request.block_keys(), request.shareable_end());
  if (request.shares_all()) in_making_.Drop(request.id());
}

}  // namespace scd
