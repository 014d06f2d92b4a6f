#include "common/model/spm_model_file.h"

#include <bit>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/model/string_views.h"
#include "common/model/vocabulary.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Field numbers of sentencepiece_model.proto.
constexpr std::uint32_t kModelPieces = 1, kModelTrainerSpec = 2, kModelNormalizerSpec = 3;
constexpr std::uint32_t kPieceText = 1, kPieceScore = 2, kPieceType = 3;
constexpr std::uint32_t kTrainerModelType = 3;
constexpr std::uint32_t kNormalizerCharsmap = 2, kNormalizerDummyPrefix = 3;
constexpr std::uint64_t kUnigram = 1, kBpe = 2;

absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("not a sentencepiece model: ", ToAbsl(what)));
}

struct Field {
  std::uint32_t number = 0;
  std::uint32_t wire_type = 0;
  std::uint64_t value = 0;  // of varints and fixed-width fields
  std::string_view bytes;   // of length-delimited fields
};

// Reads a protocol buffer's fields one after the other.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}
  bool done() const { return rest_.empty(); }

  absl::StatusOr<Field> Next() {
    SCD_ASSIGN_OR_RETURN(const std::uint64_t tag, Varint());
    Field field;
    field.number = static_cast<std::uint32_t>(tag >> 3);
    field.wire_type = static_cast<std::uint32_t>(tag & 7);
    switch (field.wire_type) {
      case 0: {
        SCD_ASSIGN_OR_RETURN(field.value, Varint());
        return field;
      }
      case 1:
        return Fixed(field, 8);
      case 2: {
        SCD_ASSIGN_OR_RETURN(const std::uint64_t size, Varint());
        if (size > rest_.size()) return Malformed("a field is longer than the file");
        field.bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return field;
      }
      case 5:
        return Fixed(field, 4);
      default:
        return Malformed(absl::StrCat("wire type ", field.wire_type));
    }
  }

 private:
  absl::StatusOr<std::uint64_t> Varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return Malformed("it is cut short");
      const auto byte = static_cast<std::uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return Malformed("a number has too many bytes");
  }

  absl::StatusOr<Field> Fixed(Field field, std::size_t size) {
    if (rest_.size() < size) return Malformed("it is cut short");
    for (std::size_t i = 0; i < size; ++i) {
      field.value |= std::uint64_t{static_cast<std::uint8_t>(rest_[i])} << (8 * i);
    }
    rest_.remove_prefix(size);
    return field;
  }

  std::string_view rest_;
};

absl::StatusOr<SpmPiece> ParsePiece(std::string_view bytes) {
  SpmPiece piece;
  for (FieldReader reader(bytes); !reader.done();) {
    SCD_ASSIGN_OR_RETURN(const Field field, reader.Next());
    if (field.number == kPieceText) piece.text = field.bytes;
    if (field.number == kPieceScore)
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    if (field.number == kPieceType) {
      if (field.value < 1 || field.value > 6) return Malformed(absl::StrCat("piece type ", field.value));
      piece.type = static_cast<PieceType>(field.value);
    }
  }
  if (!std::isfinite(piece.score)) return Malformed("the score of a piece is not finite");
  return piece;
}

absl::Status ParseNormalizerSpec(std::string_view bytes, SpmModelFile* model) {
  for (FieldReader reader(bytes); !reader.done();) {
    SCD_ASSIGN_OR_RETURN(const Field field, reader.Next());
    if (field.number == kNormalizerDummyPrefix) model->add_dummy_prefix = field.value != 0;
    if (field.number == kNormalizerCharsmap && !field.bytes.empty()) {
      return absl::UnimplementedError(
          "normalizer_spec: normalisation rules other than identity are not supported");
    }
  }
  return absl::OkStatus();
}

absl::Status ParseTrainerSpec(std::string_view bytes, std::uint64_t* model_type) {
  for (FieldReader reader(bytes); !reader.done();) {
    SCD_ASSIGN_OR_RETURN(const Field field, reader.Next());
    if (field.number == kTrainerModelType) *model_type = field.value;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SpmModelFile> ParseSpmModelFile(std::string_view bytes) {
  SpmModelFile model;
  std::uint64_t model_type = kUnigram;
  for (FieldReader reader(bytes); !reader.done();) {
    SCD_ASSIGN_OR_RETURN(const Field field, reader.Next());
    if (field.number == kModelPieces) {
      SCD_ASSIGN_OR_RETURN(model.pieces.emplace_back(), ParsePiece(field.bytes));
      if (model.pieces.size() > static_cast<std::size_t>(kMaxTokenId))
        return Malformed("it has too many pieces");
    } else if (field.number == kModelTrainerSpec) {
      SCD_RETURN_IF_ERROR(ParseTrainerSpec(field.bytes, &model_type));
    } else if (field.number == kModelNormalizerSpec) {
      SCD_RETURN_IF_ERROR(ParseNormalizerSpec(field.bytes, &model));
    }
  }
  if (model.pieces.empty()) return Malformed("it has no pieces");
  if (model_type != kUnigram && model_type != kBpe) {
    return absl::UnimplementedError(
        absl::StrCat("trainer_spec: model type ", model_type, " is neither unigram (1) nor bpe (2)"));
  }
  model.is_bpe = model_type == kBpe;
  return model;
}

std::string_view NoDummyPrefixSuffix() {
  // normalizer_spec (field 3, length-delimited, 2 bytes): add_dummy_prefix (field 3, varint) = 0.
  static constexpr std::string_view kSuffix("\x1A\x02\x18\x00", 4);
  return kSuffix;
}

}  // namespace scd
