#include "calibrate/trace_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// A piece: for each kept layer H of the producer and of the consumer; then, of held-out prefixes, for each
// layer K of both and V of both.
constexpr std::int64_t kKvParts = 4;

std::int64_t HiddenBytes(const TraceShape& shape, std::int64_t rows) {
  return rows * shape.hidden * static_cast<std::int64_t>(DTypeBytes(shape.hidden_dtype));
}

std::int64_t KvBytes(const TraceShape& shape, std::int64_t rows) {
  return rows * shape.d_kv * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t AllHiddenBytes(const TraceShape& shape, std::int64_t rows) {
  return static_cast<std::int64_t>(shape.hidden_layers.size()) * 2 * HiddenBytes(shape, rows);
}

absl::Status CheckF16Range(ConstTensorView rows, std::int64_t layer) {
  constexpr std::uint16_t kExponent = 0x7C00;  // all ones: infinity or NaN
  const auto* bits = rows.as<std::uint16_t>();
  for (std::int64_t i = 0; i < rows.num_elements(); ++i) {
    if ((bits[i] & kExponent) == kExponent) {
      return absl::OutOfRangeError(absl::StrCat("attention inputs of layer ", layer,
                                                " are beyond f16: set trace.scratch_dtype to f32"));
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Span<std::byte> Writable(std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

TraceStore::TraceStore(const TraceShape& shape, std::unique_ptr<OutputFile> file,
                       std::vector<TracePiece> pieces)
    : shape_(shape), file_(std::move(file)), pieces_(std::move(pieces)) {}

std::int64_t TraceStore::Bytes(const TraceShape& shape, std::int64_t rows, bool held_out) {
  return AllHiddenBytes(shape, rows) + (held_out ? shape.num_layers * kKvParts * KvBytes(shape, rows) : 0);
}

absl::StatusOr<std::unique_ptr<TraceStore>> TraceStore::Open(const std::string& path, const TraceShape& shape,
                                                             std::vector<TracePiece> pieces) {
  std::int64_t size = 0;
  if (!pieces.empty()) {
    const TracePiece& last = pieces.back();
    size = last.offset + Bytes(shape, last.rows, last.held_out);
  }
  SCD_ASSIGN_OR_RETURN(auto file, OutputFile::Open(path, size));
  return std::unique_ptr<TraceStore>(new TraceStore(shape, std::move(file), std::move(pieces)));
}

absl::Status TraceStore::AppendRows(ConstTensorView rows) {
  return file_->Append(
      {rows.as<std::byte>(), static_cast<std::size_t>(rows.num_elements()) * DTypeBytes(rows.dtype())});
}

absl::Status TraceStore::Append(TracePiece piece, const TraceTap& producer, const TraceTap& consumer,
                                std::int64_t first_row) {
  piece.offset = file_->size();
  for (std::size_t slot = 0; slot < shape_.hidden_layers.size(); ++slot) {
    for (const TraceTap* tap : {&producer, &consumer}) {
      const ConstTensorView rows = tap->hidden(static_cast<std::int64_t>(slot)).rows(first_row, piece.rows);
      if (rows.dtype() == DType::kF16) SCD_RETURN_IF_ERROR(CheckF16Range(rows, shape_.hidden_layers[slot]));
      SCD_RETURN_IF_ERROR(AppendRows(rows));
    }
  }
  for (std::int64_t layer = 0; piece.held_out && layer < shape_.num_layers; ++layer) {
    for (const ConstTensorView& rows :
         {producer.k(layer), consumer.k(layer), producer.v(layer), consumer.v(layer)}) {
      SCD_RETURN_IF_ERROR(AppendRows(rows.rows(first_row, piece.rows)));
    }
  }
  pieces_.push_back(piece);
  return absl::OkStatus();
}

std::int64_t TraceStore::NumRows(bool held_out) const {
  std::int64_t rows = 0;
  for (const TracePiece& piece : pieces_) rows += piece.held_out == held_out ? piece.rows : 0;
  return rows;
}

absl::Status TraceStore::ReadHidden(const TracePiece& piece, std::int64_t layer, PairSide side,
                                    std::vector<float>* out) const {
  const std::int64_t slot = shape_.HiddenSlot(layer);
  if (slot < 0)
    return absl::InternalError(absl::StrCat("attention inputs of layer ", layer, " were not kept"));
  const std::int64_t part = 2 * slot + (side == PairSide::kConsumer ? 1 : 0);
  const std::int64_t offset = piece.offset + part * HiddenBytes(shape_, piece.rows);
  out->resize(static_cast<std::size_t>(piece.rows * shape_.hidden));
  if (shape_.hidden_dtype == DType::kF32) return file_->Read(offset, Writable(*out));
  std::vector<std::uint16_t> halves(out->size());
  SCD_RETURN_IF_ERROR(file_->Read(offset, Writable(halves)));
  for (std::size_t i = 0; i < halves.size(); ++i) (*out)[i] = F16ToFloat(halves[i]);
  return absl::OkStatus();
}

absl::Status TraceStore::ReadKv(const TracePiece& piece, std::int64_t layer, std::int64_t part,
                                std::vector<float>* out) const {
  if (!piece.held_out) return absl::InternalError("K and V are kept of held-out prefixes alone");
  const std::int64_t offset = piece.offset + AllHiddenBytes(shape_, piece.rows) +
                              (layer * kKvParts + part) * KvBytes(shape_, piece.rows);
  out->resize(static_cast<std::size_t>(piece.rows * shape_.d_kv));
  return file_->Read(offset, Writable(*out));
}

absl::Status TraceStore::ReadK(const TracePiece& piece, std::int64_t layer, PairSide side,
                               std::vector<float>* out) const {
  return ReadKv(piece, layer, side == PairSide::kProducer ? 0 : 1, out);
}

absl::Status TraceStore::ReadV(const TracePiece& piece, std::int64_t layer, PairSide side,
                               std::vector<float>* out) const {
  return ReadKv(piece, layer, side == PairSide::kProducer ? 2 : 3, out);
}

}  // namespace scd
