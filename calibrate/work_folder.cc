#include "calibrate/work_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "calibrate/file_io.h"
#include "common/io/mapped_file.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'S', 'C', 'D', 'W', 'O', 'R', 'K', '1'};
constexpr char kLockFile[] = "lock";
constexpr char kRecordSuffix[] = ".record";

struct Header {
  char magic[sizeof(kMagic)];
  char digest[Digest::kBytes];
  std::uint64_t counts[3];
  std::uint64_t checksum;  // of everything after the header, seeded by the counts
};
static_assert(sizeof(Header) == 56);

template <typename T>
absl::Span<const std::byte> AsBytes(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
}

std::uint64_t Checksum(const Header& header, absl::Span<const absl::Span<const std::byte>> parts) {
  std::uint64_t sum = header.counts[0] ^ (header.counts[1] << 20) ^ (header.counts[2] << 40);
  for (const auto& part : parts) sum = Checksum64(part, sum);
  return sum;
}

template <typename T>
std::vector<T> Take(absl::Span<const std::byte>& rest, std::uint64_t count) {
  std::vector<T> out(count);
  if (count > 0) std::memcpy(out.data(), rest.data(), count * sizeof(T));
  rest.remove_prefix(count * sizeof(T));
  return out;
}

}  // namespace

WorkFolder::WorkFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

WorkFolder::~WorkFolder() {
  close(lock_);
}

absl::StatusOr<std::unique_ptr<WorkFolder>> WorkFolder::Open(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(path, ": cannot make the work folder"));
  const std::string lock_path = absl::StrCat(path, "/", kLockFile);
  const int lock = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return FileError(lock_path, "cannot open");
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    close(lock);
    return absl::FailedPreconditionError(absl::StrCat(path, ": another calibration works in this folder"));
  }
  return std::unique_ptr<WorkFolder>(new WorkFolder(path, lock));
}

absl::Status WorkFolder::Write(const std::string& name, const Digest& inputs, const WorkRecord& record) {
  Header header;
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  std::memcpy(header.digest, inputs.bytes().data(), sizeof(header.digest));
  header.counts[0] = record.integers.size();
  header.counts[1] = record.numbers.size();
  header.counts[2] = record.values.size();
  const absl::Span<const std::byte> parts[] = {AsBytes(record.integers), AsBytes(record.numbers),
                                               AsBytes(record.values)};
  header.checksum = Checksum(header, parts);

  const std::string path = File(name + kRecordSuffix);
  const std::string temporary = path + ".new";
  SCD_ASSIGN_OR_RETURN(auto file, OutputFile::Open(temporary, 0));
  SCD_RETURN_IF_ERROR(file->Append({reinterpret_cast<const std::byte*>(&header), sizeof(header)}));
  for (const auto& part : parts) SCD_RETURN_IF_ERROR(file->Append(part));
  SCD_RETURN_IF_ERROR(file->Flush());
  if (rename(temporary.c_str(), path.c_str()) != 0) return FileError(path, "cannot replace");
  return absl::OkStatus();
}

absl::StatusOr<WorkRecord> WorkFolder::Read(const std::string& name, const Digest& inputs) const {
  const std::string path = File(name + kRecordSuffix);
  const auto unusable = [&] { return absl::NotFoundError(absl::StrCat(path, ": no usable record")); };
  const auto file = MappedFile::Open(path);
  if (!file.ok()) return unusable();
  absl::Span<const std::byte> rest = (*file)->bytes();
  Header header;
  if (rest.size() < sizeof(header)) return unusable();
  std::memcpy(&header, rest.data(), sizeof(header));
  rest.remove_prefix(sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) return unusable();
  if (std::memcmp(header.digest, inputs.bytes().data(), sizeof(header.digest)) != 0) return unusable();
  for (const std::uint64_t count : header.counts) {
    if (count > rest.size()) return unusable();
  }
  if (header.counts[0] * 8 + header.counts[1] * 8 + header.counts[2] * 4 != rest.size()) return unusable();
  const auto at = [&](std::size_t begin, std::size_t size) { return rest.subspan(begin, size); };
  const std::size_t integers = header.counts[0] * 8;
  const std::size_t numbers = header.counts[1] * 8;
  const absl::Span<const std::byte> parts[] = {at(0, integers), at(integers, numbers),
                                               at(integers + numbers, header.counts[2] * 4)};
  if (Checksum(header, parts) != header.checksum) return unusable();

  WorkRecord record;
  record.integers = Take<std::int64_t>(rest, header.counts[0]);
  record.numbers = Take<double>(rest, header.counts[1]);
  record.values = Take<float>(rest, header.counts[2]);
  return record;
}

absl::Status WorkFolder::CheckSpace(std::uint64_t bytes) const {
  std::error_code error;
  const fs::space_info space = fs::space(path_, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(path_, ": cannot tell the free space"));
  if (space.available >= bytes) return absl::OkStatus();
  constexpr std::uint64_t kMib = 1 << 20;
  return absl::ResourceExhaustedError(absl::StrCat(path_, ": this run needs about ", bytes / kMib + 1,
                                                   " MiB here, the disk has ", space.available / kMib,
                                                   " MiB left"));
}

void WorkFolder::Clear() {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name == kLockFile || absl::EndsWith(name, kRecordSuffix) ||
                      absl::StrContains(name, ".record.") || absl::EndsWith(name, ".scratch") ||
                      absl::StartsWith(name, "draft");
    if (ours) fs::remove_all(entry.path(), ignored);
  }
  fs::remove(path_, ignored);  // only where nothing else is in it
}

}  // namespace scd
