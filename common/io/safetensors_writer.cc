#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/io/safetensors.h"
#include "kernels/status_macros.h"
#include "nlohmann/json.hpp"

namespace scd {
namespace {

constexpr std::size_t kHeaderAlignment = 64;  // so that every tensor starts aligned in a mapping

const char* DTypeLabel(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    case DType::kI32:
      return "I32";
    case DType::kI8:
      return "I8";
    case DType::kU8:
      return "U8";
  }
  return "";
}

std::size_t TensorBytes(const ConstTensorView& view) {
  return static_cast<std::size_t>(view.num_elements()) * DTypeBytes(view.dtype());
}

absl::Status WriteAll(int fd, const void* data, std::size_t size, const std::string& path) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(fd, next, std::min(size, std::size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot write"));
    next += written;
    size -= static_cast<std::size_t>(written);
  }
  return absl::OkStatus();
}

absl::Status CheckTensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  std::set<std::string> names;
  for (const NamedTensor& tensor : tensors) {
    const auto error = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", tensor.name, ": ", what));
    };
    if (!names.insert(tensor.name).second) return error("two tensors have this name");
    if (tensor.name == "__metadata__") return error("this name is reserved");
    if (tensor.view.empty() || tensor.view.device() != Device::kHost || !tensor.view.contiguous()) {
      return error("only contiguous tensors in host memory can be written");
    }
    if (tensor.view.num_elements() < 1) return error("a dimension is zero");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  SCD_RETURN_IF_ERROR(CheckTensors(path, tensors));
  // Wider types first, so that every offset is a multiple of its tensor's element size.
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return DTypeBytes(a->view.dtype()) > DTypeBytes(b->view.dtype());
  });

  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t offset = 0;
  for (const NamedTensor* tensor : order) {
    nlohmann::json shape = nlohmann::json::array();
    for (int i = 0; i < tensor->view.rank(); ++i) shape.push_back(tensor->view.dim(i));
    const std::size_t end = offset + TensorBytes(tensor->view);
    header[tensor->name] = {{"dtype", DTypeLabel(tensor->view.dtype())},
                            {"shape", std::move(shape)},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a tensor name or metadata text is not UTF-8"));
  }
  text.append((kHeaderAlignment - (8 + text.size()) % kHeaderAlignment) % kHeaderAlignment, ' ');
  std::string prefix(8, '\0');
  for (std::size_t i = 0; i < prefix.size(); ++i)
    prefix[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);

  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot create"));
  auto closer = absl::MakeCleanup([&fd] { close(fd); });
  SCD_RETURN_IF_ERROR(WriteAll(fd, prefix.data(), prefix.size(), path));
  SCD_RETURN_IF_ERROR(WriteAll(fd, text.data(), text.size(), path));
  for (const NamedTensor* tensor : order) {
    SCD_RETURN_IF_ERROR(WriteAll(fd, tensor->view.data(), TensorBytes(tensor->view), path));
  }
  if (fsync(fd) != 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot flush to disk"));
  std::move(closer).Cancel();
  if (close(fd) != 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot close"));
  return absl::OkStatus();
}

}  // namespace scd
