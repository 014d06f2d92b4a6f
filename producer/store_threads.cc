#include "producer/store_threads.h"

#include <utility>

namespace scd {

StoreThreads::StoreThreads(std::size_t num_threads, std::size_t max_waiting)
    : max_waiting_(num_threads == 0 ? 0 : max_waiting), num_idle_(num_threads) {
  threads_.reserve(num_threads);
  for (std::size_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Work(); });
}

StoreThreads::~StoreThreads() {
  {
    std::deque<std::function<void()>> dropped;  // what they hold is let go after the lock
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
    dropped.swap(waiting_);
  }
  threads_.clear();
}

bool StoreThreads::Run(std::function<void()> question) {
  const absl::MutexLock lock(&mutex_);
  if (stopping_ || waiting_.size() >= num_idle_ + max_waiting_) return false;
  waiting_.push_back(std::move(question));
  return true;
}

void StoreThreads::Work() {
  const auto woken = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !waiting_.empty(); };
  for (;;) {
    std::function<void()> question;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&woken));
      if (stopping_) return;
      question = std::move(waiting_.front());
      waiting_.pop_front();
      --num_idle_;
    }
    question();
    question = nullptr;  // what it holds goes before the thread counts as idle
    const absl::MutexLock lock(&mutex_);
    ++num_idle_;
  }
}

}  // namespace scd
