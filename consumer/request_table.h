// The engine's requests: those that wait, those that have pages, and those whose pages were moved to host
// memory. Decides who comes in, who waits for blocks that another is making, and who gives pages up.
//
// Requests come in by age and none overtakes another, but for those that wait for another's blocks. Pages are
// reserved for the prompt and one block more; sequences grow while they decode. Where no page is left for an
// older request, the youngest that is not being rebuilt is moved to host memory, and comes back, oldest
// first, before any new request comes in. So that the oldest always goes on and host memory fails nobody, a
// request comes in only where
//   all that were admitted fit into the pages at their longest, or all but the oldest into host memory, and
//   the longest of them fits into the pages beside all that are being rebuilt, which cannot be moved.
// Only writers of requests that have ended, which hold pages a little longer, can then leave an older request
// without a page and without room in host memory for another's: it waits until they let go.
// For the engine's thread, between passes; counts() for any.
#ifndef SCD_CONSUMER_REQUEST_TABLE_H_
#define SCD_CONSUMER_REQUEST_TABLE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/cache/paged_kv_cache.h"
#include "consumer/active_request.h"
#include "consumer/blocks_in_making.h"
#include "consumer/byte_budget.h"

namespace scd {

class RequestTable {
 public:
  using Clock = std::chrono::steady_clock;
  using Requests = std::map<EngineRequestId, std::unique_ptr<ActiveRequest>>;

  // `cache` outlives this. `pages_freed` is called, from any thread, when a sequence has died.
  RequestTable(PagedKvCache& cache, std::int64_t swap_bytes, std::function<void()> pages_freed)
      : cache_(cache), pages_freed_(std::move(pages_freed)), swap_(swap_bytes) {}

  void Enqueue(std::unique_ptr<ActiveRequest> request) { queue_.push_back(std::move(request)); }
  // Queued or admitted; null where it is not there any more.
  ActiveRequest* Find(EngineRequestId id);
  // Takes it out, wherever it is; null where it is nowhere.
  std::unique_ptr<ActiveRequest> Take(EngineRequestId id);
  // Admitted ones, oldest first; those that are swapped out too.
  const Requests& admitted() const { return admitted_; }
  std::vector<EngineRequestId> AllIds() const;

  // Brings back those whose pages were moved away, as far as there is room.
  void Resume();

  struct Admission {
    ActiveRequest* request = nullptr;
    absl::StatusOr<std::shared_ptr<Sequence>> sequence;  // its pages, or why it cannot be served
  };
  // The next request that can come in now; nothing where none can.
  std::optional<Admission> AdmitNext(Clock::time_point now);
  // When, after `now`, AdmitNext is to be asked again though nothing has happened.
  std::optional<Clock::time_point> NextDeadline(Clock::time_point now) const;

  struct Ended {
    EngineRequestId id = 0;
    absl::Status status;
  };
  // Gives a decoding request the page of its next position. False where it has to wait or was moved away
  // itself. Those that had to give their pages up and could not be copied (no memory), and so have to end,
  // are added to `ended`.
  bool MakeRoom(ActiveRequest& request, std::vector<Ended>& ended);

  // Makes known what the request has made. To be called whenever it has got further.
  void PublishBlocks(ActiveRequest& request);

  struct Counts {
    std::int64_t preemptions = 0;    // since the start
    std::int64_t swapped_bytes = 0;  // moved to host memory since the start
    std::int64_t swapped_requests = 0;
  };
  Counts counts() const { return {preemptions_, swapped_bytes_, swapped_requests_}; }

 private:
  // Whether it is to wait for blocks that another makes.
  bool WaitsForBlocks(ActiveRequest& request, Clock::time_point now) const;
  // Pages of the request at its longest.
  std::int64_t MostPages(const ActiveRequest& request) const {
    return cache_.PagesFor(request.positions_needed());
  }
  // Whether it and those that were admitted can all be served to their end, whatever they grow to and however
  // long a transfer takes.
  bool CanEndBeside(const ActiveRequest& request) const;
  // Of the admitted ones younger than `id`, the youngest that can be moved away; null where there is none.
  ActiveRequest* YoungestAfter(EngineRequestId id);
  // Whether another admitted request, younger than `id` where `younger`, has pages.
  bool OthersHavePages(EngineRequestId id, bool younger) const;
  // `room`: of swap_, for its pages.
  absl::Status MoveAway(ActiveRequest& request, ByteBudget::Lease room);
  std::deque<std::unique_ptr<ActiveRequest>>::iterator InQueue(EngineRequestId id);
  std::int64_t swap_pages() const { return swap_.total() / cache_.layout().page_bytes(); }
  // After every change of swapped_.
  void CountSwapped() { swapped_requests_ = static_cast<std::int64_t>(swapped_.size()); }

  PagedKvCache& cache_;
  const std::function<void()> pages_freed_;
  ByteBudget swap_;
  std::deque<std::unique_ptr<ActiveRequest>> queue_;
  Requests admitted_;
  std::map<EngineRequestId, ByteBudget::Lease> swapped_;
  BlocksInMaking in_making_;
  std::atomic<std::int64_t> preemptions_ = 0;
  std::atomic<std::int64_t> swapped_bytes_ = 0;
  std::atomic<std::int64_t> swapped_requests_ = 0;
};

}  // namespace scd

#endif  // SCD_CONSUMER_REQUEST_TABLE_H_
