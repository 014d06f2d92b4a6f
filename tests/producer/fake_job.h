// A job of the prefill engine that keeps and checks what it is given.
#ifndef SCD_TESTS_PRODUCER_FAKE_JOB_H_
#define SCD_TESTS_PRODUCER_FAKE_JOB_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/cache/block_keys.h"
#include "common/wire/transfer_checker.h"
#include "gtest/gtest.h"
#include "common/store/code_keys.h"
#include "producer/prefill_job.h"
#include "tests/producer/producer_rig.h"

namespace scd::testing {

class FakeJob : public PrefillJob {
 public:
  explicit FakeJob(std::vector<std::int32_t> tokens, std::int64_t first_token = 1) {
    TinyProducer& tiny = SharedTinyProducer();
    input_.bundle = &tiny.bundle(0);
    input_.plan = tiny.Plan();
    input_.token_ids = std::move(tokens);
    input_.first_token = first_token;
  }

  // From now on blocks are shared with other jobs and codes are stored.
  void Share(std::int64_t block_tokens) {
    TinyProducer& tiny = SharedTinyProducer();
    input_.page_keys =
        BlockKeys(StateSeed(tiny.model().digest, "dense", DType::kF32), input_.token_ids, block_tokens);
    input_.code_keys =
        CodeKeys(input_.bundle->digest(), input_.plan, input_.first_token, input_.page_keys, block_tokens);
  }

  PrefillInput& mutable_input() { return input_; }
  const PrefillInput& input() const override { return input_; }

  bool HasRoom() const override {
    const absl::MutexLock lock(&mutex_);
    return has_room_;
  }
  void Begin(std::int64_t num_stored_tokens) override {
    const absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(stored_at_begin_.has_value()) << "began twice";
    stored_at_begin_ = num_stored_tokens;
  }
  void Deliver(LayerCode code) override {
    const absl::MutexLock lock(&mutex_);
    Take(code);
  }
  void DeliverStored(StoredCodes codes) override {
    const absl::MutexLock lock(&mutex_);
    StoredCodeReader reader(input_.plan, std::move(codes), 1 << 20);
    LayerCode code;
    while (reader.Next(&code)) Take(code);
  }
  void Complete(const absl::Status& status, const PrefillReport& report) override {
    const absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(status_.has_value()) << "completed twice";
    status_ = status;
    report_ = report;
  }

  void SetRoom(bool has_room) {
    const absl::MutexLock lock(&mutex_);
    has_room_ = has_room;
  }
  absl::Status WaitComplete() {
    const absl::MutexLock lock(&mutex_);
    const auto done = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return status_.has_value(); };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&done), absl::Seconds(60))) {
      return absl::DeadlineExceededError("the job did not complete");
    }
    return *status_;
  }
  bool complete() {
    const absl::MutexLock lock(&mutex_);
    return status_.has_value();
  }
  CodesByColumn codes() {
    const absl::MutexLock lock(&mutex_);
    return codes_;
  }
  std::int64_t num_codes() {
    const absl::MutexLock lock(&mutex_);
    return num_codes_;
  }
  PrefillReport report() {
    const absl::MutexLock lock(&mutex_);
    return report_;
  }
  // What Begin said; -1 before it.
  std::int64_t stored_at_begin() {
    const absl::MutexLock lock(&mutex_);
    return stored_at_begin_.value_or(-1);
  }
  // Whether exactly the codes that were asked for came, in order.
  absl::Status CheckCodes() {
    const absl::MutexLock lock(&mutex_);
    absl::Status status = check_;
    status.Update(checker_.has_value() ? checker_->CheckComplete() : absl::NotFoundError("no codes"));
    return status;
  }

 private:
  void Take(const LayerCode& code) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    EXPECT_TRUE(stored_at_begin_.has_value()) << "codes before the beginning";
    ++num_codes_;
    if (!checker_.has_value()) {
      checker_.emplace(input_.plan, input_.first_token, static_cast<std::int64_t>(input_.token_ids.size()));
    }
    check_.Update(checker_->Accept(code));
    Append(codes_, code);
  }

  PrefillInput input_;
  mutable absl::Mutex mutex_;
  bool has_room_ ABSL_GUARDED_BY(mutex_) = true;
  std::int64_t num_codes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<TransferChecker> checker_ ABSL_GUARDED_BY(mutex_);
  absl::Status check_ ABSL_GUARDED_BY(mutex_);
  CodesByColumn codes_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mutex_);
  PrefillReport report_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::int64_t> stored_at_begin_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace scd::testing

#endif  // SCD_TESTS_PRODUCER_FAKE_JOB_H_
