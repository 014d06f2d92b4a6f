#include "common/store/redis_code_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/store/block_record.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using Kind = RedisReply::Kind;

constexpr std::size_t kKeysInExchange = 1024;

RedisLinkOptions LinkOptions(const RedisCodeStoreOptions& options) {
  return {.server = options.server,
          .timeout = options.timeout,
          .retry_interval = options.retry_interval,
          .warn = options.warn};
}

}  // namespace

std::unique_ptr<RedisCodeStore> RedisCodeStore::Create(RedisCodeStoreOptions options) {
  std::unique_ptr<RedisCodeStore> store(new RedisCodeStore(std::move(options)));
  store->thread_ = std::jthread([raw = store.get()] { raw->Run(); });
  return store;
}

RedisCodeStore::RedisCodeStore(RedisCodeStoreOptions options)
    : options_(std::move(options)),
      drop_warnings_(options_.warn, options_.now),
      write_warnings_(options_.warn, options_.now),
      queue_warnings_(options_.warn, options_.now),
      link_(LinkOptions(options_)) {}

RedisCodeStore::~RedisCodeStore() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

std::string RedisCodeStore::KeyOf(const Digest& key) const {
  return absl::StrCat(options_.key_prefix, key.ToHex());
}

// --- reading ---

std::vector<std::shared_ptr<const CodeBlock>> RedisCodeStore::FindPrefix(absl::Span<const Digest> keys) {
  Found found;
  absl::Status status;
  if (!keys.empty()) {
    if (RedisLink::Lease lease = link_.Take()) {
      status = Lookup(*lease, keys, found);
      if (!status.ok()) lease.Fail(status);
    }
  }
  if (!found.corrupt.empty()) {
    drop_warnings_.Warn(absl::StrCat("code store: redis at ", options_.server.ToString(), ": ",
                                     KeyOf(found.corrupt[0]), ": ", found.why, "; it is deleted"));
  }
  const absl::MutexLock lock(&mutex_);
  counts_.hits += static_cast<std::int64_t>(found.blocks.size());
  counts_.misses += static_cast<std::int64_t>(keys.size() - found.blocks.size());
  counts_.dropped_corrupt += static_cast<std::int64_t>(found.corrupt.size());
  counts_.dropped_expired += static_cast<std::int64_t>(found.expired.size());
  counts_.read_failures += status.ok() ? 0 : 1;
  return std::move(found.blocks);
}

std::int64_t RedisCodeStore::CountPrefix(absl::Span<const Digest> keys) {
  RedisLink::Lease lease = link_.Take();
  if (!lease) return 0;
  Found found;
  const auto lengths = PrefixLengths(*lease, keys, found);
  if (lengths.ok()) return static_cast<std::int64_t>(lengths->size());
  lease.Fail(lengths.status());
  const absl::MutexLock lock(&mutex_);
  ++counts_.read_failures;
  return 0;
}

std::vector<CodeSource> RedisCodeStore::FindSources(const Digest& bundle) {
  RedisLink::Lease lease = link_.Take();
  if (!lease) return {};
  auto sources =
      ReadSources(*lease, options_.key_prefix, bundle, options_.now() - options_.ttl, link_.Deadline());
  if (sources.ok()) return *std::move(sources);
  lease.Fail(sources.status());
  const absl::MutexLock lock(&mutex_);
  ++counts_.read_failures;
  return {};
}

absl::StatusOr<std::vector<std::int64_t>> RedisCodeStore::Lengths(RedisConnection& connection,
                                                                  absl::Span<const Digest> keys) const {
  const absl::Time deadline = link_.Deadline();
  for (const Digest& key : keys) connection.Append({"STRLEN", KeyOf(key)});
  SCD_RETURN_IF_ERROR(connection.Send(deadline));
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    SCD_ASSIGN_OR_RETURN(const RedisReply reply, connection.Read(deadline));
    if (reply.is(Kind::kInteger)) {
      lengths.push_back(std::max<std::int64_t>(reply.integer, 0));
    } else if (reply.is(Kind::kError) && absl::StartsWith(*reply.text, "WRONGTYPE")) {
      lengths.push_back(kForeign);
    } else {
      return absl::UnavailableError(
          absl::StrCat("redis at ", options_.server.ToString(), ": ", reply.ErrorText()));
    }
  }
  return lengths;
}

absl::StatusOr<std::vector<std::int64_t>> RedisCodeStore::PrefixLengths(RedisConnection& connection,
                                                                        absl::Span<const Digest> keys,
                                                                        Found& found) const {
  std::vector<std::int64_t> prefix;
  while (prefix.size() < keys.size()) {
    SCD_ASSIGN_OR_RETURN(const std::vector<std::int64_t> lengths,
                         Lengths(connection, keys.subspan(prefix.size(), kKeysInExchange)));
    for (const std::int64_t length : lengths) {
      if (length == 0) return prefix;
      if (length == kForeign || length > options_.max_value_bytes) {
        found.corrupt.push_back(keys[prefix.size()]);
        found.why = length == kForeign ? "is no string" : absl::StrCat("has ", length, " bytes");
        return prefix;
      }
      prefix.push_back(length);
    }
  }
  return prefix;
}

absl::Status RedisCodeStore::Lookup(RedisConnection& connection, absl::Span<const Digest> keys,
                                    Found& found) const {
  SCD_ASSIGN_OR_RETURN(const std::vector<std::int64_t> lengths, PrefixLengths(connection, keys, found));
  const bool ended = found.ended();
  for (std::size_t begin = 0, end = 0; begin < lengths.size() && found.ended() == ended; begin = end) {
    std::int64_t bytes = lengths[end++];
    while (end < lengths.size() && bytes + lengths[end] <= options_.batch_bytes) bytes += lengths[end++];
    const std::size_t before = found.blocks.size();
    SCD_RETURN_IF_ERROR(ReadBatch(connection, keys.subspan(begin, end - begin),
                                  absl::MakeConstSpan(lengths).subspan(begin, end - begin), found));
    if (found.blocks.size() < before + (end - begin)) break;
  }
  SCD_RETURN_IF_ERROR(Delete(connection, found.corrupt));
  return options_.read_only ? absl::OkStatus() : Delete(connection, found.expired);
}

absl::Status RedisCodeStore::ReadBatch(RedisConnection& connection, absl::Span<const Digest> keys,
                                       absl::Span<const std::int64_t> lengths, Found& found) const {
  const absl::Time deadline = link_.Deadline();
  for (const Digest& key : keys) connection.Append({"GET", KeyOf(key)});
  SCD_RETURN_IF_ERROR(connection.Send(deadline));
  bool ended = false;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto most = static_cast<std::size_t>(lengths[i]) + RedisConnection::kSmallReplyBytes;
    SCD_ASSIGN_OR_RETURN(const RedisReply reply, connection.Read(deadline, most));
    if (ended) continue;
    ended = true;
    if (reply.is(Kind::kNil)) continue;  // it expired, or gave way, just now
    if (!reply.is(Kind::kString)) {
      return absl::UnavailableError(
          absl::StrCat("redis at ", options_.server.ToString(), ": ", reply.ErrorText()));
    }
    auto block = ParseBlock(keys[i], *reply.text, reply.text);
    if (!block.ok()) {
      found.corrupt.push_back(keys[i]);
      found.why = std::string(block.status().message());
    } else if (Expired((*block)->created)) {
      found.expired.push_back(keys[i]);
    } else {
      found.blocks.push_back(*std::move(block));
      ended = false;
    }
  }
  return absl::OkStatus();
}

absl::Status RedisCodeStore::Delete(RedisConnection& connection, absl::Span<const Digest> keys) const {
  if (keys.empty()) return absl::OkStatus();
  std::vector<std::string> names;
  for (const Digest& key : keys) names.push_back(KeyOf(key));
  std::vector<absl::string_view> command = {"DEL"};
  command.insert(command.end(), names.begin(), names.end());
  // Who may only read is refused, and never gets the value either.
  return connection.Call(command, link_.Deadline()).status();
}

// --- writing ---

void RedisCodeStore::Insert(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) {
  if (Enqueue(chain.back(), std::move(block), options_.max_queued_bytes)) return;
  {
    const absl::MutexLock lock(&mutex_);
    ++counts_.queue_drops;
  }
  queue_warnings_.Warn(absl::StrCat("code store: redis at ", options_.server.ToString(), ": more than ",
                                    options_.max_queued_bytes >> 20,
                                    " MiB wait to be written; blocks are not kept there"));
}

void RedisCodeStore::Offer(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) {
  if (link_.up()) Enqueue(chain.back(), std::move(block), options_.max_queued_bytes / 2);
}

bool RedisCodeStore::Enqueue(const Digest& key, std::shared_ptr<const CodeBlock> block,
                             std::int64_t max_queued_bytes) {
  const auto bytes = static_cast<std::int64_t>(BlockRecordBytes(*block));
  if (bytes > options_.max_value_bytes || Expired(block->created)) return true;
  const absl::MutexLock lock(&mutex_);
  if (waiting_.contains(key)) return true;
  if (queued_bytes_ + bytes > max_queued_bytes) return false;
  waiting_.insert(key);
  queue_.push_back({.key = key, .block = std::move(block), .bytes = bytes});
  queued_bytes_ += bytes;
  return true;
}

void RedisCodeStore::Run() {
  constexpr absl::Duration kLookAgain = absl::Milliseconds(200);
  const auto woken = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); };
  absl::Time next_sources = options_.sources.empty() ? absl::InfiniteFuture() : absl::InfinitePast();
  std::uint64_t generation = 0;  // of the connections by which the sources were entered
  absl::Time end = absl::InfiniteFuture();
  for (;;) {
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithDeadline(absl::Condition(&woken), next_sources);
      if (stopping_) end = std::min(end, absl::Now() + options_.close_timeout);
      if (stopping_ && (queue_.empty() || absl::Now() >= end)) break;
    }
    RedisLink::Lease lease = link_.Take();
    if (!lease) {
      const absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kLookAgain)) break;
      continue;
    }
    absl::Status status;
    if (!options_.sources.empty() && (absl::Now() >= next_sources || lease.generation() != generation)) {
      const absl::Time now = options_.now();
      status = EnterSources(*lease, options_.key_prefix, options_.sources, now, now - options_.ttl,
                            link_.Deadline());
      if (absl::IsFailedPrecondition(status)) {
        write_warnings_.Warn(absl::StrCat("code store: redis at ", options_.server.ToString(), ": ",
                                          status.message(), "; this producer cannot be found there"));
        status = absl::OkStatus();
      }
      generation = lease.generation();
      next_sources = absl::Now() + options_.source_interval;
    }
    const std::vector<Task> batch = status.ok() ? TakeBatch() : std::vector<Task>();
    std::int64_t num_kept = 0;
    if (!batch.empty()) status = Write(*lease, batch, num_kept);
    if (!status.ok()) lease.Fail(status);
    EndBatch(batch, num_kept);
  }
  WarnOfUnwritten();
}

std::vector<RedisCodeStore::Task> RedisCodeStore::TakeBatch() {
  const absl::MutexLock lock(&mutex_);
  std::vector<Task> batch;
  std::int64_t bytes = 0;
  while (!queue_.empty() && (batch.empty() || bytes + queue_.front().bytes <= options_.batch_bytes) &&
         batch.size() < kKeysInExchange) {
    bytes += queue_.front().bytes;
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return batch;
}

absl::Status RedisCodeStore::Write(RedisConnection& connection, absl::Span<const Task> batch,
                                   std::int64_t& num_kept) {
  std::vector<Digest> keys;
  for (const Task& task : batch) keys.push_back(task.key);
  SCD_ASSIGN_OR_RETURN(const std::vector<std::int64_t> lengths, Lengths(connection, keys));
  const absl::Time deadline = link_.Deadline();
  std::int64_t num_sent = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const absl::Duration left = options_.ttl - (options_.now() - batch[i].block->created);
    // Under one name there are only ever the same codes.
    if (lengths[i] > 0 || left < absl::Milliseconds(1)) {
      ++num_kept;
      continue;
    }
    const std::string name = KeyOf(batch[i].key);
    const std::string record = SerializeBlock(batch[i].key, *batch[i].block);
    const std::string ms = absl::StrCat(absl::ToInt64Milliseconds(left));
    if (left == absl::InfiniteDuration()) {
      connection.Append({"SET", name, record});
    } else {
      connection.Append({"SET", name, record, "PX", ms});
    }
    ++num_sent;
  }
  SCD_RETURN_IF_ERROR(connection.Send(deadline));
  for (; num_sent > 0; --num_sent) {
    SCD_ASSIGN_OR_RETURN(const RedisReply reply, connection.Read(deadline));
    if (reply.is(Kind::kStatus)) {
      ++num_kept;
      continue;
    }
    write_warnings_.Warn(absl::StrCat("code store: redis at ", options_.server.ToString(),
                                      ": a block is not kept there: ", reply.ErrorText()));
  }
  return absl::OkStatus();
}

void RedisCodeStore::EndBatch(absl::Span<const Task> batch, std::int64_t num_kept) {
  const absl::MutexLock lock(&mutex_);
  for (const Task& task : batch) {
    waiting_.erase(task.key);
    queued_bytes_ -= task.bytes;
  }
  counts_.write_failures += static_cast<std::int64_t>(batch.size()) - num_kept;
}

void RedisCodeStore::WarnOfUnwritten() {
  std::size_t num_left = 0;
  {
    const absl::MutexLock lock(&mutex_);
    num_left = queue_.size();
    counts_.queue_drops += static_cast<std::int64_t>(num_left);
  }
  if (num_left == 0) return;
  queue_warnings_.Warn(absl::StrCat("code store: redis at ", options_.server.ToString(), ": ", num_left,
                                    " blocks were not written within ",
                                    absl::FormatDuration(options_.close_timeout), " of the end"));
}

void RedisCodeStore::Flush() {
  const absl::MutexLock lock(&mutex_);
  const auto done = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return waiting_.empty(); };
  mutex_.Await(absl::Condition(&done));
}

std::vector<CodeStoreStats> RedisCodeStore::stats() const {
  const std::int64_t num_failed_tries = link_.num_failed_tries();
  const absl::MutexLock lock(&mutex_);
  CodeStoreStats stats = counts_;
  stats.tier = "redis";
  stats.place = options_.server.ToString();
  stats.read_failures += num_failed_tries;
  return {stats};
}

}  // namespace scd
