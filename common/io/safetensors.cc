#include "common/io/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/io/json.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kLengthBytes = 8;
// The format's own limit, which its other readers enforce too.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct Extent {
  std::uint64_t begin = 0;  // within the data section
  std::uint64_t end = 0;
  std::string name;
};

std::optional<DType> ParseDType(const std::string& name) {
  if (name == "F32") return DType::kF32;
  if (name == "F16") return DType::kF16;
  if (name == "BF16") return DType::kBF16;
  if (name == "I32") return DType::kI32;
  if (name == "I8") return DType::kI8;
  if (name == "U8") return DType::kU8;
  return std::nullopt;
}

// "[4, 64]" of a JSON array as a Shape; sizes at least 1, the product at most 2^62.
absl::StatusOr<Shape> ParseShape(const JsonObject& entry) {
  const nlohmann::json* dims = entry.Find("shape");
  if (dims == nullptr || !dims->is_array()) return entry.Error("shape", "expected an array of sizes");
  if (dims->size() > static_cast<std::size_t>(Shape::kMaxRank)) {
    return entry.Error("shape",
                       absl::StrCat("has ", dims->size(), " dimensions, more than ", Shape::kMaxRank));
  }
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  std::int64_t product = 1;
  for (std::size_t i = 0; i < dims->size(); ++i) {
    const nlohmann::json& dim = (*dims)[i];
    if (!dim.is_number_unsigned()) return entry.Error("shape", "sizes are integers of at least 1");
    const auto size = dim.get<std::uint64_t>();
    if (size == 0) return entry.Error("shape", "a dimension is zero");
    constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 62;
    if (size > kMaxElements / static_cast<std::uint64_t>(product)) {
      return entry.Error("shape", "the number of elements overflows");
    }
    sizes[i] = static_cast<std::int64_t>(size);
    product *= sizes[i];
  }
  switch (dims->size()) {
    case 0:
      return Shape{};
    case 1:
      return Shape{sizes[0]};
    case 2:
      return Shape{sizes[0], sizes[1]};
    case 3:
      return Shape{sizes[0], sizes[1], sizes[2]};
    default:
      return Shape{sizes[0], sizes[1], sizes[2], sizes[3]};
  }
}

absl::StatusOr<Extent> ParseExtent(const JsonObject& entry, const std::string& name,
                                   std::uint64_t data_bytes) {
  const nlohmann::json* offsets = entry.Find("data_offsets");
  if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
    return entry.Error("data_offsets", "expected two integers of at least 0");
  }
  const Extent extent{(*offsets)[0].get<std::uint64_t>(), (*offsets)[1].get<std::uint64_t>(), name};
  if (extent.begin > extent.end || extent.end > data_bytes) {
    return entry.Error("data_offsets", absl::StrCat("[", extent.begin, ", ", extent.end, ") is outside the ",
                                                    data_bytes, " bytes of data in the file"));
  }
  return extent;
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::unique_ptr<MappedFile> file) : file_(std::move(file)) {}

const std::string& SafetensorsFile::path() const {
  return file_->path();
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  SCD_ASSIGN_OR_RETURN(auto mapped, MappedFile::Open(path));
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile(std::move(mapped)));
  SCD_RETURN_IF_ERROR(file->Parse());
  return file;
}

absl::Status SafetensorsFile::Parse() {
  const auto bytes = file_->bytes();
  const auto error = [this](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(path(), ": ", what...));
  };
  if (bytes.size() < kLengthBytes) {
    return error("has ", bytes.size(), " bytes, too few for a safetensors file");
  }
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    header_bytes |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  }
  if (header_bytes > bytes.size() - kLengthBytes || header_bytes > kMaxHeaderBytes) {
    return error("not a safetensors file, or truncated: the header is said to have ", header_bytes,
                 " bytes, the file has ", bytes.size());
  }
  const auto data = bytes.subspan(kLengthBytes + header_bytes);
  SCD_ASSIGN_OR_RETURN(
      const nlohmann::json header,
      ParseJson(file_->text().substr(kLengthBytes, header_bytes), absl::StrCat(path(), ": header")));
  if (!header.is_object()) return error("header: expected a JSON object");

  std::vector<Extent> extents;
  for (const auto& [name, value] : header.items()) {
    const std::string label = absl::StrCat(path(), ": ", absl::CHexEscape(name));
    SCD_ASSIGN_OR_RETURN(const JsonObject entry, JsonObject::Create(value, label));
    if (name == "__metadata__") {
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) return entry.Error(absl::CHexEscape(key), "expected a string");
        metadata_[key] = text.get<std::string>();
      }
      continue;
    }
    SCD_ASSIGN_OR_RETURN(const std::string dtype_name, entry.String("dtype"));
    const auto dtype = ParseDType(dtype_name);
    if (!dtype) {
      return entry.Error("dtype", absl::StrCat("\"", absl::CHexEscape(dtype_name),
                                               "\" is not supported (F32, F16, BF16, I32, I8, U8 are)"));
    }
    SCD_ASSIGN_OR_RETURN(const Shape shape, ParseShape(entry));
    SCD_ASSIGN_OR_RETURN(Extent extent, ParseExtent(entry, label, data.size()));
    const std::uint64_t extent_bytes = extent.end - extent.begin;
    const std::uint64_t width = DTypeBytes(*dtype);
    if (extent_bytes % width != 0 ||
        static_cast<std::uint64_t>(shape.num_elements()) != extent_bytes / width) {
      return entry.Error("data_offsets", absl::StrCat("has ", extent_bytes, " bytes, not what ", dtype_name,
                                                      " ", shape.ToString(), " takes"));
    }
    const void* start = data.data() + extent.begin;
    if (reinterpret_cast<std::uintptr_t>(start) % width != 0) {
      const auto stored = data.subspan(extent.begin, extent_bytes);
      start = aligned_copies_.emplace_back(stored.begin(), stored.end()).data();
    }
    tensors_.emplace(name, ConstTensorView(start, *dtype, shape));
    extents.push_back(std::move(extent));
  }

  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  std::uint64_t covered = 0;
  for (const Extent& extent : extents) {
    if (extent.begin < covered) {
      return absl::InvalidArgumentError(absl::StrCat(extent.name, ": data_offsets: overlaps another tensor"));
    }
    if (extent.begin > covered) {
      return absl::InvalidArgumentError(absl::StrCat(extent.name, ": data_offsets: leaves a hole of ",
                                                     extent.begin - covered, " bytes before it"));
    }
    covered = extent.end;
  }
  if (covered != data.size()) {
    return error("has ", data.size() - covered, " bytes after the last tensor that belong to none");
  }
  return absl::OkStatus();
}

absl::StatusOr<ConstTensorView> SafetensorsFile::Get(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) return absl::NotFoundError(absl::StrCat(path(), ": ", name, ": no such tensor"));
  return it->second;
}

absl::StatusOr<ConstTensorView> SafetensorsFile::Get(const std::string& name, DType dtype,
                                                     const Shape& shape) const {
  SCD_ASSIGN_OR_RETURN(const ConstTensorView view, Get(name));
  if (view.dtype() != dtype || !(view.shape() == shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path(), ": ", name, ": expected ", std::string(DTypeName(dtype)), " ", shape.ToString(),
                     ", got ", std::string(DTypeName(view.dtype())), " ", view.shape().ToString()));
  }
  return view;
}

}  // namespace scd
