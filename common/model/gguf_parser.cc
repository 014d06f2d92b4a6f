#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/model/gguf_file.h"
#include "common/model/gguf_value.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 56;
constexpr char kAlignmentKey[] = "general.alignment";

}  // namespace

// Walks the file once from its start; `next_` never passes the end.
class GgufParser {
 public:
  explicit GgufParser(GgufFile& file) : file_(file), bytes_(file.file_->bytes()) {}

  absl::Status Parse() {
    SCD_ASSIGN_OR_RETURN(const auto magic, Take(4, "the magic number"));
    if (absl::string_view(reinterpret_cast<const char*>(magic.data()), 4) != "GGUF") {
      return file_.Error("header", "not a GGUF file: it does not begin with \"GGUF\"");
    }
    SCD_ASSIGN_OR_RETURN(const std::uint64_t version, TakeInt(4, "the version"));
    if (version != 2 && version != 3) {
      return file_.Error(
          "header", absl::StrCat("GGUF version ", version, " is not supported (little-endian 2 and 3 are)"));
    }
    SCD_ASSIGN_OR_RETURN(const std::uint64_t num_tensors, TakeInt(8, "the number of tensors"));
    SCD_ASSIGN_OR_RETURN(const std::uint64_t num_values, TakeInt(8, "the number of metadata values"));
    for (std::uint64_t i = 0; i < num_values; ++i) {
      SCD_RETURN_IF_ERROR(ParseValue(absl::StrCat("metadata value ", i, " of ", num_values)));
    }
    SCD_RETURN_IF_ERROR(ReadAlignment());
    std::vector<Extent> extents;
    for (std::uint64_t i = 0; i < num_tensors; ++i) {
      SCD_ASSIGN_OR_RETURN(Extent extent, ParseTensor(absl::StrCat("tensor ", i, " of ", num_tensors)));
      extents.push_back(std::move(extent));
    }
    return PlaceTensors(std::move(extents));
  }

 private:
  struct Extent {
    std::string name;
    std::uint64_t begin = 0;  // from the start of the data section
    std::uint64_t size = 0;
  };

  absl::StatusOr<absl::Span<const std::byte>> Take(std::uint64_t size, absl::string_view what) {
    if (size > bytes_.size() - next_) {
      return file_.Error("header", absl::StrCat("the file ends within ", what, ": ", size,
                                                " bytes are needed, ", bytes_.size() - next_, " are left"));
    }
    const auto taken = bytes_.subspan(next_, size);
    next_ += size;
    return taken;
  }

  absl::StatusOr<std::uint64_t> TakeInt(std::size_t width, absl::string_view what) {
    SCD_ASSIGN_OR_RETURN(const auto data, Take(width, what));
    return GgufLittleEndian(data.data(), width);
  }

  absl::StatusOr<absl::Span<const std::byte>> TakeString(absl::string_view what) {
    SCD_ASSIGN_OR_RETURN(const std::uint64_t size, TakeInt(8, what));
    return Take(size, what);
  }

  absl::StatusOr<std::string> TakeName(absl::string_view what) {
    SCD_ASSIGN_OR_RETURN(const auto data, TakeString(absl::StrCat("the name of ", what)));
    constexpr std::size_t kMaxNameBytes = 65535;
    if (data.empty() || data.size() > kMaxNameBytes) {
      return file_.Error("header", absl::StrCat("the name of ", what, " has ", data.size(), " bytes"));
    }
    return std::string(reinterpret_cast<const char*>(data.data()), data.size());
  }

  absl::Status ParseValue(const std::string& what) {
    SCD_ASSIGN_OR_RETURN(std::string key, TakeName(what));
    const std::string label = absl::CHexEscape(key);
    SCD_ASSIGN_OR_RETURN(const std::uint64_t type, TakeInt(4, label));
    GgufFile::Value value;
    value.type = static_cast<std::uint32_t>(type);
    if (value.type == GgufValueType::kArray) {
      SCD_RETURN_IF_ERROR(ParseArray(key, value));
    } else if (value.type == GgufValueType::kString) {
      SCD_ASSIGN_OR_RETURN(value.data, TakeString(label));
    } else {
      const std::size_t width = GgufScalarBytes(value.type);
      if (width == 0) return file_.Error(key, absl::StrCat("a value of unknown type ", type));
      SCD_ASSIGN_OR_RETURN(value.data, Take(width, label));
    }
    if (!file_.values_.emplace(key, value).second) return file_.Error(key, "this key stands twice");
    return absl::OkStatus();
  }

  absl::Status ParseArray(const std::string& name, GgufFile::Value& value) {
    const std::string label = absl::CHexEscape(name);
    SCD_ASSIGN_OR_RETURN(const std::uint64_t element_type, TakeInt(4, label));
    SCD_ASSIGN_OR_RETURN(value.count, TakeInt(8, label));
    value.element_type = static_cast<std::uint32_t>(element_type);
    if (value.element_type == GgufValueType::kArray)
      return file_.Error(name, "arrays of arrays are not supported");
    if (value.element_type == GgufValueType::kString) {
      const std::size_t start = next_;
      for (std::uint64_t i = 0; i < value.count; ++i) SCD_RETURN_IF_ERROR(TakeString(label).status());
      value.data = bytes_.subspan(start, next_ - start);
      return absl::OkStatus();
    }
    const std::size_t width = GgufScalarBytes(value.element_type);
    if (width == 0) return file_.Error(name, absl::StrCat("an array of unknown type ", element_type));
    if (value.count > (bytes_.size() - next_) / width) {
      return file_.Error(name, absl::StrCat("the file ends within an array of ", value.count, " values"));
    }
    SCD_ASSIGN_OR_RETURN(value.data, Take(value.count * width, label));
    return absl::OkStatus();
  }

  absl::Status ReadAlignment() {
    if (!file_.Has(kAlignmentKey)) return absl::OkStatus();
    SCD_ASSIGN_OR_RETURN(const std::int64_t value,
                         file_.Int(kAlignmentKey, 0, std::numeric_limits<std::int64_t>::max()));
    alignment_ = static_cast<std::uint64_t>(value);
    if (alignment_ < 8 || alignment_ > kMaxAlignment || (alignment_ & (alignment_ - 1)) != 0) {
      return file_.Error(kAlignmentKey,
                         absl::StrCat("expected a power of two in [8, ", kMaxAlignment, "], got ", value));
    }
    return absl::OkStatus();
  }

  // Reads one description and stores the tensor without its data.
  absl::StatusOr<Extent> ParseTensor(const std::string& what) {
    SCD_ASSIGN_OR_RETURN(std::string name, TakeName(what));
    const std::string label = absl::CHexEscape(name);
    SCD_ASSIGN_OR_RETURN(const std::uint64_t rank, TakeInt(4, label));
    if (rank < 1 || rank > static_cast<std::uint64_t>(Shape::kMaxRank)) {
      return file_.Error(name,
                         absl::StrCat("has ", rank, " dimensions; 1 to ", Shape::kMaxRank, " are supported"));
    }
    std::array<std::uint64_t, Shape::kMaxRank> dims{1, 1, 1, 1};  // fastest first
    std::uint64_t elements = 1;
    for (std::uint64_t i = 0; i < rank; ++i) {
      SCD_ASSIGN_OR_RETURN(dims[i], TakeInt(8, label));
      if (dims[i] == 0) return file_.Error(name, "a dimension is zero");
      if (dims[i] > kMaxElements / elements) return file_.Error(name, "the number of elements overflows");
      elements *= dims[i];
    }
    SCD_ASSIGN_OR_RETURN(const std::uint64_t number, TakeInt(4, label));
    SCD_ASSIGN_OR_RETURN(const std::uint64_t offset, TakeInt(8, label));
    const auto type = GgmlTypeFromNumber(static_cast<std::uint32_t>(number));
    if (!type) {
      return file_.Error(name, absl::StrCat("is stored as ", GgmlTypeName(static_cast<std::uint32_t>(number)),
                                            ", which is not supported"));
    }
    const auto block = static_cast<std::uint64_t>(GgmlBlockElements(*type));
    if (dims[0] % block != 0) {
      return file_.Error(name, absl::StrCat("a row of ", dims[0], " is not a whole number of ",
                                            GgmlTypeName(*type), " blocks of ", block));
    }
    if (offset % alignment_ != 0) {
      return file_.Error(name, absl::StrCat("its offset ", offset, " is not a multiple of ", alignment_));
    }
    const std::uint64_t size = elements / block * static_cast<std::uint64_t>(GgmlBlockBytes(*type));
    const auto tensor = GgufTensor{*type, ReversedShape(dims, static_cast<int>(rank)), {}};
    if (!file_.tensors_.emplace(name, tensor).second) return file_.Error(name, "this tensor stands twice");
    return Extent{std::move(name), offset, size};
  }

  static Shape ReversedShape(const std::array<std::uint64_t, Shape::kMaxRank>& dims, int rank) {
    Shape shape = rank == 1   ? Shape{1}
                  : rank == 2 ? Shape{1, 1}
                  : rank == 3 ? Shape{1, 1, 1}
                              : Shape{1, 1, 1, 1};
    for (int i = 0; i < rank; ++i)
      shape.set_dim(i, static_cast<std::int64_t>(dims[static_cast<std::size_t>(rank - 1 - i)]));
    return shape;
  }

  // Gives every tensor its bytes, now that the end of the header is known.
  absl::Status PlaceTensors(std::vector<Extent> extents) {
    const std::uint64_t aligned = (next_ + alignment_ - 1) / alignment_ * alignment_;
    const auto data = aligned < bytes_.size() ? bytes_.subspan(aligned) : absl::Span<const std::byte>();
    std::sort(extents.begin(), extents.end(),
              [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    std::uint64_t covered = 0;
    for (const Extent& extent : extents) {
      if (extent.begin < covered) return file_.Error(extent.name, "overlaps another tensor");
      if (extent.begin > data.size() || extent.size > data.size() - extent.begin) {
        return file_.Error(extent.name,
                           absl::StrCat("lies past the end of the file: ", extent.size, " bytes at ",
                                        extent.begin, " of ", data.size(), " bytes of data"));
      }
      covered = extent.begin + extent.size;
      file_.tensors_.at(extent.name).data = data.subspan(extent.begin, extent.size);
    }
    return absl::OkStatus();
  }

  GgufFile& file_;
  const absl::Span<const std::byte> bytes_;
  std::size_t next_ = 0;
  std::uint64_t alignment_ = kDefaultAlignment;
};

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  SCD_ASSIGN_OR_RETURN(auto mapped, MappedFile::Open(path));
  std::unique_ptr<GgufFile> file(new GgufFile(std::move(mapped)));
  SCD_RETURN_IF_ERROR(GgufParser(*file).Parse());
  return file;
}

}  // namespace scd
