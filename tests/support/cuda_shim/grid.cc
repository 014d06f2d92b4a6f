#include "tests/support/cuda_shim/grid.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/support/cuda_shim/fiber.h"

namespace scd::cuda_shim {

Indices* indices = nullptr;
std::byte* dynamic_shared = nullptr;

void Fail(const char* what) {
  std::fprintf(stderr, "cuda shim: %s\n", what);
  std::abort();
}

namespace {

constexpr unsigned int kWarp = 32;
constexpr std::size_t kSharedAlignment = 32;
constexpr unsigned char kUnwritten = 0xff;  // as floats: not a number

struct Thread {
  Indices indices;
  unsigned int number = 0;  // in the block
  Fiber* fiber = nullptr;   // nullptr: has not begun
};

// What is shared is kept until every thread of the warp has come to the next call, by which time all was
// read.
struct Warp {
  alignas(16) std::byte values[2][kWarp * kMostShared];
  std::size_t value_bytes = 0;  // of the call that threads wait in
  unsigned int calls = 0;
  unsigned int ended = 0;
  std::uint64_t rank = 0;  // the least is the first to run ahead
  std::vector<Thread*> waiting;
};

class Runner {
 public:
  void SetOrder(std::uint64_t seed) {
    shuffled_ = seed != 0;
    random_.seed(seed);
  }

  void Run(dim3 grid, dim3 block, std::size_t shared_bytes, absl::FunctionRef<void()> body) {
    body_ = &body;
    const std::size_t rounded = (shared_bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
    const std::unique_ptr<void, void (*)(void*)> shared(std::aligned_alloc(kSharedAlignment, rounded),
                                                        std::free);
    dynamic_shared = static_cast<std::byte*>(shared.get());
    Fiber own;
    main_ = &own;
    std::vector<std::size_t> blocks(std::size_t{grid.x} * grid.y * grid.z);
    std::iota(blocks.begin(), blocks.end(), 0);
    if (shuffled_) std::shuffle(blocks.begin(), blocks.end(), random_);
    for (const std::size_t number : blocks) {
      std::memset(dynamic_shared, kUnwritten, shared_bytes);
      const auto index = static_cast<unsigned int>(number);
      Begin({index % grid.x, index / grid.x % grid.y, index / grid.x / grid.y}, block, grid);
      Thread* first = Next();
      first->fiber = TakeFiber();
      Resume(*first, *main_);
      if (ended_ != threads_.size()) Fail("threads wait for others that do not come");
    }
    main_ = nullptr;
    dynamic_shared = nullptr;
    indices = nullptr;
    body_ = nullptr;
  }

  void SyncThreads() {
    at_barrier_.push_back(current_);
    ReleaseBarrier();
    GiveWay();
  }

  const std::byte* ShareInWarp(const void* mine, std::size_t bytes) {
    Warp& warp = warps_[current_->number / kWarp];
    if (warp.ended > 0) Fail("threads of a warp wait for one that ended");
    if (bytes > kMostShared) Fail("more is shared in a warp than there is room for");
    if (!warp.waiting.empty() && warp.value_bytes != bytes) Fail("threads of a warp do different things");
    warp.value_bytes = bytes;
    std::byte* const values = warp.values[warp.calls % 2];
    if (bytes > 0) std::memcpy(values + current_->number % kWarp * bytes, mine, bytes);
    warp.waiting.push_back(current_);
    if (warp.waiting.size() == kWarp) {
      ++warp.calls;
      Release(warp.waiting);
    }
    GiveWay();
    return values;
  }

  unsigned int ThisLane() const { return current_->number % kWarp; }

  // Runs threads that have not begun, one after the other, until it must wait for another.
  [[noreturn]] void Work() {
    while (true) {
      (*body_)();
      End();
    }
  }

 private:
  void Begin(uint3 block_index, dim3 block, dim3 grid) {
    const std::size_t count = std::size_t{block.x} * block.y * block.z;
    threads_.resize(count);
    warps_.resize((count + kWarp - 1) / kWarp);
    for (Warp& warp : warps_) {
      warp.calls = warp.ended = 0;
      warp.waiting.clear();
      if (shuffled_) warp.rank = random_();
    }
    warps_run_ahead_ = shuffled_ && random_() % 2 == 0;
    ready_.clear();
    taken_ = 0;
    ended_ = 0;
    at_barrier_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const auto number = static_cast<unsigned int>(i);
      threads_[i].indices = {{number % block.x, number / block.x % block.y, number / block.x / block.y},
                             block_index,
                             block,
                             grid};
      threads_[i].number = number;
      threads_[i].fiber = nullptr;
      ready_.push_back(&threads_[i]);
    }
  }

  Thread* Next() {
    if (taken_ == ready_.size()) return nullptr;
    if (shuffled_) std::swap(ready_[taken_], ready_[taken_ + Chosen()]);
    Thread* next = ready_[taken_++];
    if (taken_ == ready_.size()) {
      ready_.clear();
      taken_ = 0;
    }
    return next;
  }

  // Which of the ready threads. In every other block one warp runs ahead of the others as far as it can.
  std::size_t Chosen() {
    const std::size_t count = ready_.size() - taken_;
    std::size_t chosen = random_() % count;
    if (!warps_run_ahead_) return chosen;
    for (std::size_t i = 0; i < count; ++i) {
      if (RankOf(*ready_[taken_ + i]) < RankOf(*ready_[taken_ + chosen])) chosen = i;
    }
    return chosen;
  }

  std::uint64_t RankOf(const Thread& thread) const { return warps_[thread.number / kWarp].rank; }

  void Release(std::vector<Thread*>& waiting) {
    ready_.insert(ready_.end(), waiting.begin(), waiting.end());
    waiting.clear();
  }

  void ReleaseBarrier() {
    if (at_barrier_.size() + ended_ < threads_.size()) return;
    Release(at_barrier_);
  }

  Fiber* TakeFiber() {
    if (idle_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>(&Runner::Entry));
      return fibers_.back().get();
    }
    Fiber* fiber = idle_.back();
    idle_.pop_back();
    return fiber;
  }

  void Resume(Thread& next, Fiber& from) {
    current_ = &next;
    indices = &next.indices;
    if (next.fiber != &from) from.SwitchTo(*next.fiber);
  }

  // The current thread waits.
  void GiveWay() {
    Fiber& own = *current_->fiber;
    Thread* next = Next();
    if (next == nullptr) {
      own.SwitchTo(*main_);  // which fails
      return;
    }
    if (next->fiber == nullptr) next->fiber = TakeFiber();
    Resume(*next, own);
  }

  // The current thread has ended; returns where its fiber is to run another from the beginning.
  void End() {
    Fiber& own = *current_->fiber;
    ++ended_;
    Warp& warp = warps_[current_->number / kWarp];
    ++warp.ended;
    if (!warp.waiting.empty()) Fail("a thread ended while others of its warp wait for it");
    ReleaseBarrier();
    Thread* next = Next();
    if (next != nullptr && next->fiber == nullptr) {
      next->fiber = &own;
      Resume(*next, own);
      return;
    }
    idle_.push_back(&own);
    if (next != nullptr) {
      Resume(*next, own);
    } else {
      own.SwitchTo(*main_);
    }
  }

  static void Entry();

  absl::FunctionRef<void()>* body_ = nullptr;
  Fiber* main_ = nullptr;
  bool shuffled_ = false;
  bool warps_run_ahead_ = false;
  std::mt19937_64 random_;

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<Thread*> ready_;  // from taken_ on
  std::size_t taken_ = 0;
  std::vector<Thread*> at_barrier_;
  std::size_t ended_ = 0;
  Thread* current_ = nullptr;
};

Runner& TheRunner() {
  static Runner runner;
  return runner;
}

void Runner::Entry() {
  TheRunner().Work();
}

}  // namespace

void RunGrid(dim3 grid, dim3 block, std::size_t shared_bytes, absl::FunctionRef<void()> body) {
  TheRunner().Run(grid, block, shared_bytes, body);
}

void SyncThreads() {
  TheRunner().SyncThreads();
}

const std::byte* ShareInWarp(const void* mine, std::size_t bytes) {
  return TheRunner().ShareInWarp(mine, bytes);
}

std::uint32_t Shuffle(std::uint32_t value, unsigned int from_lane) {
  std::uint32_t result;
  std::memcpy(&result, ShareInWarp(&value, sizeof(value)) + from_lane % kWarp * sizeof(value),
              sizeof(result));
  return result;
}

unsigned int ThisLane() {
  return TheRunner().ThisLane();
}

void SetOrder(std::uint64_t seed) {
  TheRunner().SetOrder(seed);
}

}  // namespace scd::cuda_shim
