#include "common/store/disk_code_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/io/mapped_file.h"
#include "common/store/block_record.h"
#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::unique_ptr<DiskCodeStore>> DiskCodeStore::Create(DiskCodeStoreOptions options) {
  if (options.capacity_bytes < 1) {
    return absl::InvalidArgumentError(absl::StrCat(options.path, ": a code store of no bytes"));
  }
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<BlockFolder> folder, BlockFolder::Open(options.path));
  SCD_ASSIGN_OR_RETURN(BlockFolder::Listing listing, folder->List());
  std::unique_ptr<DiskCodeStore> store(new DiskCodeStore(std::move(options), std::move(folder)));
  store->Load(std::move(listing));
  store->thread_ = std::jthread([raw = store.get()] { raw->Run(); });
  return store;
}

DiskCodeStore::DiskCodeStore(DiskCodeStoreOptions options, std::unique_ptr<BlockFolder> folder)
    : options_(std::move(options)),
      folder_(std::move(folder)),
      drop_warnings_(options_.warn, options_.now),
      read_warnings_(options_.warn, options_.now),
      write_warnings_(options_.warn, options_.now),
      queue_warnings_(options_.warn, options_.now),
      index_(options_.capacity_bytes) {}

DiskCodeStore::~DiskCodeStore() {
  const absl::MutexLock lock(&mutex_);
  stopping_ = true;
}

void DiskCodeStore::Load(BlockFolder::Listing listing) {
  for (const std::string& path : listing.strangers) {
    drop_warnings_.Warn(absl::StrCat("code store: ", path, ": is no block by its name; it is removed"));
    folder_->RemoveStranger(path);
  }
  std::sort(listing.files.begin(), listing.files.end(),
            [](const BlockFolder::File& a, const BlockFolder::File& b) { return a.used > b.used; });
  const absl::MutexLock lock(&mutex_);
  counts_.dropped_corrupt += static_cast<std::int64_t>(listing.strangers.size());
  for (const BlockFolder::File& file : listing.files) {
    index_.AddOlder({.key = file.key,
                     .bytes = file.bytes,
                     .created = file.created,
                     .used = file.used,
                     .waiting = nullptr});
  }
}

std::vector<std::shared_ptr<const CodeBlock>> DiskCodeStore::FindAtOnce(absl::Span<const Digest> keys,
                                                                        std::size_t first) {
  std::vector<std::shared_ptr<const CodeBlock>> blocks;
  for (const Digest& key : keys.subspan(first)) {
    std::shared_ptr<const CodeBlock> block = Read(key);
    if (block == nullptr) break;
    blocks.push_back(std::move(block));
  }
  const absl::Time now = options_.now();
  const absl::MutexLock lock(&mutex_);
  index_.MarkUsed(keys.first(first + blocks.size()), now);
  counts_.hits += static_cast<std::int64_t>(blocks.size());
  counts_.misses += static_cast<std::int64_t>(keys.size() - first - blocks.size());
  return blocks;
}

std::shared_ptr<const CodeBlock> DiskCodeStore::Read(const Digest& key) {
  std::shared_ptr<const CodeBlock> block;
  {
    const absl::MutexLock lock(&mutex_);
    const DiskIndex::Entry* entry = index_.Find(key);
    if (entry == nullptr) return nullptr;
    block = entry->waiting;
  }
  if (block == nullptr) block = ReadFile(key);
  if (block == nullptr || !Expired(block->created, options_.now())) return block;
  DropFile(key, &CodeStoreStats::dropped_expired);
  return nullptr;
}

std::shared_ptr<const CodeBlock> DiskCodeStore::ReadFile(const Digest& key) {
  const std::string path = folder_->PathOf(key);
  absl::StatusOr<std::unique_ptr<MappedFile>> opened = MappedFile::Open(path);
  absl::Status status = opened.status();
  if (status.ok()) status = (*opened)->Load();
  if (!status.ok()) {
    bool failed = !absl::IsNotFound(status);
    if (failed) {
      const absl::MutexLock lock(&mutex_);
      ++counts_.read_failures;
    } else {
      // Unless it gave way just now, somebody took the file away.
      failed = DropFile(key, &CodeStoreStats::read_failures);
    }
    if (failed) read_warnings_.Warn(absl::StrCat("code store: ", status.message()));
    return nullptr;
  }
  const std::shared_ptr<const MappedFile> file = *std::move(opened);
  absl::StatusOr<std::shared_ptr<const CodeBlock>> block = ParseBlock(key, file->text(), file);
  if (block.ok()) return *std::move(block);
  if (DropFile(key, &CodeStoreStats::dropped_corrupt)) {
    drop_warnings_.Warn(absl::StrCat(path, ": ", block.status().message(), "; it is removed"));
  }
  return nullptr;
}

bool DiskCodeStore::DropFile(const Digest& key, std::int64_t CodeStoreStats::*counter) {
  const absl::MutexLock lock(&mutex_);
  const DiskIndex::Entry* entry = index_.Find(key);
  if (entry == nullptr || entry->waiting != nullptr) return false;
  ++(counts_.*counter);
  index_.Erase(key);
  tasks_.push_back({.key = key});
  return true;
}

void DiskCodeStore::Remove(absl::Span<const DiskIndex::Entry> erased) {
  for (const DiskIndex::Entry& entry : erased) tasks_.push_back({.key = entry.key});
}

void DiskCodeStore::Insert(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) {
  const Digest& key = chain.back();
  const auto bytes = static_cast<std::int64_t>(BlockRecordBytes(*block));
  const absl::Time now = options_.now();
  if (DiskIndex::OnDisk(bytes) > options_.capacity_bytes || Expired(block->created, now)) return;
  bool full = false;
  {
    const absl::MutexLock lock(&mutex_);
    index_.MarkUsed(chain, now);
    if (index_.Find(key) != nullptr) return;
    full = queued_bytes_ + bytes > options_.max_queued_bytes;
    if (full) {
      ++counts_.queue_drops;
    } else {
      const std::vector<DiskIndex::Entry> erased = index_.MakeRoom(bytes);
      counts_.evicted += static_cast<std::int64_t>(erased.size());
      Remove(erased);
      index_.Add({.key = key, .bytes = bytes, .created = block->created, .used = now, .waiting = block}, now);
      index_.MarkUsed(chain, now);
      tasks_.push_back({.key = key, .queued_bytes = bytes});
      queued_bytes_ += bytes;
    }
  }
  if (full) {
    queue_warnings_.Warn(absl::StrCat("code store: ", options_.path, ": more than ",
                                      options_.max_queued_bytes >> 20,
                                      " MiB wait to be written; blocks are not kept there"));
  }
}

void DiskCodeStore::Run() {
  absl::Time next_upkeep = absl::Now();
  absl::Time end = absl::InfiniteFuture();
  const auto woken = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !tasks_.empty() || num_flushes_wanted_ > num_flushes_done_;
  };
  for (bool ended = false; !ended;) {
    std::optional<Task> task;
    std::int64_t flushes = 0;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithDeadline(absl::Condition(&woken), next_upkeep);
      if (stopping_) end = std::min(end, absl::Now() + options_.close_timeout);
      if (!tasks_.empty() && absl::Now() < end) {
        task = tasks_.front();
        tasks_.pop_front();
      }
      flushes = num_flushes_wanted_;
    }
    if (task.has_value() && task->queued_bytes > 0) Write(*task);
    if (task.has_value() && task->queued_bytes == 0) RemoveFile(task->key);
    if (task.has_value() && absl::Now() < next_upkeep) continue;
    DoUpkeep();
    next_upkeep = absl::Now() + options_.upkeep_interval;
    const absl::MutexLock lock(&mutex_);
    if (!tasks_.empty() && absl::Now() < end) continue;
    num_flushes_done_ = flushes;
    ended = stopping_;
  }
  WarnOfUnwritten();
}

void DiskCodeStore::WarnOfUnwritten() {
  std::int64_t num_left = 0;
  {
    const absl::MutexLock lock(&mutex_);
    num_left =
        std::count_if(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.queued_bytes > 0; });
    counts_.queue_drops += num_left;
  }
  if (num_left == 0) return;
  queue_warnings_.Warn(absl::StrCat("code store: ", options_.path, ": ", num_left,
                                    " blocks were not written within ",
                                    absl::FormatDuration(options_.close_timeout), " of the end"));
}

void DiskCodeStore::RemoveFile(const Digest& key) {
  {
    // It may have been inserted and written again meanwhile.
    const absl::MutexLock lock(&mutex_);
    const DiskIndex::Entry* entry = index_.Find(key);
    if (entry != nullptr && entry->waiting == nullptr) return;
  }
  if (const absl::Status status = folder_->Remove(key); !status.ok()) {
    write_warnings_.Warn(absl::StrCat("code store: ", status.message()));
  }
}

void DiskCodeStore::Write(const Task& task) {
  std::shared_ptr<const CodeBlock> block;
  absl::Time used;
  {
    const absl::MutexLock lock(&mutex_);
    queued_bytes_ -= task.queued_bytes;
    const DiskIndex::Entry* entry = index_.Find(task.key);
    if (entry == nullptr || entry->waiting == nullptr) return;  // it gave way already
    block = entry->waiting;
    used = entry->used;
  }
  const absl::Status status =
      folder_->Write(task.key, SerializeBlock(task.key, *block), block->created, used);
  bool gave_way = false;
  {
    const absl::MutexLock lock(&mutex_);
    if (!status.ok()) ++counts_.write_failures;
    DiskIndex::Entry* entry = index_.Find(task.key);
    gave_way = entry == nullptr;
    if (entry != nullptr && entry->waiting == block) {
      if (status.ok()) {
        entry->waiting.reset();
      } else {
        index_.Erase(task.key);
      }
    }
  }
  if (gave_way) RemoveFile(task.key);
  if (!status.ok()) {
    write_warnings_.Warn(absl::StrCat("code store: ", status.message(), "; blocks are not kept there"));
  }
}

void DiskCodeStore::DoUpkeep() {
  std::vector<std::pair<Digest, absl::Time>> used;
  {
    const absl::Time now = options_.now();
    const absl::MutexLock lock(&mutex_);
    const std::vector<DiskIndex::Entry> expired = index_.EraseCreatedBefore(now - options_.ttl);
    counts_.dropped_expired += static_cast<std::int64_t>(expired.size());
    Remove(expired);
    const std::vector<DiskIndex::Entry> erased = index_.MakeRoom(0);
    counts_.evicted += static_cast<std::int64_t>(erased.size());
    Remove(erased);
    used = index_.TakeUsed();
  }
  for (const auto& [key, time] : used) {
    if (const absl::Status status = folder_->SetUsed(key, time); !status.ok()) {
      write_warnings_.Warn(absl::StrCat("code store: ", status.message()));
    }
  }
}

void DiskCodeStore::Flush() {
  const absl::MutexLock lock(&mutex_);
  const std::int64_t wanted = ++num_flushes_wanted_;
  const auto done = [this, wanted]()
                        ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_flushes_done_ >= wanted; };
  mutex_.Await(absl::Condition(&done));
}

std::vector<CodeStoreStats> DiskCodeStore::stats() const {
  const absl::MutexLock lock(&mutex_);
  CodeStoreStats stats = counts_;
  stats.tier = "disk";
  stats.place = options_.path;
  stats.capacity_bytes = index_.capacity_bytes();
  stats.num_blocks = index_.num_blocks();
  stats.size_bytes = index_.size_bytes();
  return {stats};
}

}  // namespace scd
