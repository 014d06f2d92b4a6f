#include "client/bench/load_runner.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "client/bench/arrivals.h"
#include "client/bench/stream_call.h"
#include "client/channel.h"

namespace scd {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kProgressInterval{100};
// What a client of a closed loop waits after a failed request: the more, the more failed in a row.
constexpr double kFirstPauseS = 0.1;
constexpr double kLongestPauseS = 1.0;

}  // namespace

// The calls of one level, and what came of them.
class LoadRunner::Level {
 public:
  Level(LoadRunner& runner, bool closed_loop, const Limits& limits, const RequestOf& request_of)
      : runner_(runner),
        closed_loop_(closed_loop),
        limits_(limits),
        request_of_(request_of),
        begin_(SteadyClock::now()) {}

  double Now() const { return std::chrono::duration<double>(SteadyClock::now() - begin_).count(); }
  bool MayStart(std::uint64_t index, double at_s) const {
    return !runner_.stop_.stop_requested() && (limits_.requests == 0 || index < limits_.requests) &&
           at_s < absl::ToDoubleSeconds(limits_.duration);
  }

  // The next request, due at `intended_s`; false where the level is over. In a closed loop another follows
  // when it has ended, after a pause where it failed. `pause_s`: the pause before this one.
  bool StartNext(double intended_s, double pause_s = 0.0) {
    std::uint64_t index = 0;
    {
      const std::lock_guard lock(mutex_);
      if (!MayStart(num_started_, intended_s)) return false;
      index = num_started_++;
      ++num_in_flight_;
      result_.most_in_flight = std::max(result_.most_in_flight, num_in_flight_);
    }
    Launch(index, intended_s, pause_s);
    return true;
  }

  void CancelAll() {
    std::vector<std::shared_ptr<StreamCall>> calls;
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
      paused_.clear();
      for (const auto& [address, call] : calls_) calls.push_back(call);
      changed_.notify_all();
    }
    for (const auto& call : calls) call->Cancel();
  }

  // Sleeps until the level's clock says so, or until it is cancelled.
  void SleepUntil(double at_s) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, TimeOf(at_s), [this] { return cancelled_; });
  }

  // Until every request has ended; meanwhile starts those of paused clients.
  LevelResult WaitForAll() {
    std::unique_lock lock(mutex_);
    while (num_in_flight_ > 0 || !paused_.empty()) {
      if (paused_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const auto [due_s, pause_s] = *paused_.begin();
      if (Now() < due_s) {
        changed_.wait_until(lock, TimeOf(due_s));
        continue;
      }
      paused_.erase(paused_.begin());
      lock.unlock();
      StartNext(Now(), pause_s);
      lock.lock();
    }
    result_.interrupted = cancelled_;
    return std::move(result_);
  }

  // Calls on_progress until it is stopped, and once more then.
  void Watch(const std::stop_token& done, const OnProgress& on_progress) {
    std::condition_variable_any until_stop;  // nobody notifies it
    for (bool stopped = false; !stopped;) {
      std::int64_t ended = 0;
      {
        std::unique_lock lock(mutex_);
        until_stop.wait_for(lock, done, kProgressInterval, [] { return false; });
        stopped = done.stop_requested();
        ended = static_cast<std::int64_t>(num_started_) - num_in_flight_;
      }
      on_progress(ended, Now());
    }
  }

 private:
  SteadyClock::time_point TimeOf(double at_s) const {
    return begin_ + std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(at_s));
  }

  void Launch(std::uint64_t index, double intended_s, double pause_s) {
    const auto call = std::make_shared<StreamCall>(
        request_of_(index), intended_s, runner_.target_.deadline, [this] { return Now(); },
        [this, pause_s](StreamCall* ended, const RequestRecord& record) { End(ended, record, pause_s); });
    bool cancel = false;
    {
      const std::lock_guard lock(mutex_);
      calls_.emplace(call.get(), call);
      cancel = cancelled_;
    }
    if (cancel) call->Cancel();
    call->Start(*runner_.stubs_[index % runner_.stubs_.size()]);
  }

  void End(StreamCall* call, const RequestRecord& record, double pause_s) {
    std::shared_ptr<StreamCall> ended;
    {
      const std::lock_guard lock(mutex_);
      const auto found = calls_.find(call);
      ended = std::move(found->second);
      calls_.erase(found);
      result_.Add(record);
    }
    ended.reset();
    const double now = Now();
    pause_s = record.status.ok() ? 0.0 : std::clamp(2 * pause_s, kFirstPauseS, kLongestPauseS);
    std::uint64_t successor = 0;
    {
      const std::lock_guard lock(mutex_);
      const bool goes_on = closed_loop_ && MayStart(num_started_, now + pause_s);
      if (!goes_on || pause_s > 0.0) {
        --num_in_flight_;
        if (goes_on && !cancelled_) paused_.emplace(now + pause_s, pause_s);
        changed_.notify_all();  // the level may be gone after this
        return;
      }
      successor = num_started_++;
    }
    Launch(successor, now, pause_s);
  }

  LoadRunner& runner_;
  const bool closed_loop_;
  const Limits limits_;
  const RequestOf& request_of_;
  const SteadyClock::time_point begin_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::unordered_map<StreamCall*, std::shared_ptr<StreamCall>> calls_;
  std::multimap<double, double> paused_;  // clients of a closed loop: when they go on, and their pause
  std::uint64_t num_started_ = 0;
  std::int64_t num_in_flight_ = 0;
  bool cancelled_ = false;
  LevelResult result_;
};

LoadRunner::LoadRunner(const Target& target, std::stop_token stop) : target_(target), stop_(std::move(stop)) {
  for (std::uint32_t i = 0; i < std::max<std::uint32_t>(1, target.channels); ++i) {
    stubs_.push_back(v1::Consumer::NewStub(NewChannel(target.address)));
  }
}

LoadRunner::~LoadRunner() = default;

LevelResult LoadRunner::RunClosed(std::uint32_t concurrency, const Limits& limits,
                                  const RequestOf& request_of, const OnProgress& on_progress) {
  Level level(*this, /*closed_loop=*/true, limits, request_of);
  const std::stop_callback cancel(stop_, [&level] { level.CancelAll(); });
  std::jthread watch([&](const std::stop_token& done) { level.Watch(done, on_progress); });
  for (std::uint32_t i = 0; i < concurrency; ++i) level.StartNext(level.Now());
  LevelResult result = level.WaitForAll();
  result.concurrency = concurrency;
  return result;
}

LevelResult LoadRunner::RunOpen(double rate_per_s, std::uint64_t seed, const Limits& limits,
                                const RequestOf& request_of, const OnProgress& on_progress) {
  Level level(*this, /*closed_loop=*/false, limits, request_of);
  const std::stop_callback cancel(stop_, [&level] { level.CancelAll(); });
  std::jthread watch([&](const std::stop_token& done) { level.Watch(done, on_progress); });
  PoissonArrivals arrivals(rate_per_s, seed);
  double due_s = arrivals.NextSeconds();
  for (std::uint64_t index = 0; level.MayStart(index, due_s); ++index) {
    level.SleepUntil(due_s);
    level.StartNext(due_s);
    due_s = arrivals.NextSeconds();
  }
  LevelResult result = level.WaitForAll();
  result.rate_per_s = rate_per_s;
  return result;
}

}  // namespace scd
