#include "calibrate/kv_rows.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "calibrate/host_math.h"
#include "kernels/kv_projection.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

void CopyColumns(const std::vector<float>& from, std::int64_t first, TensorView to) {
  const auto width = static_cast<std::int64_t>(from.size()) / to.dim(0);
  for (std::int64_t r = 0; r < to.dim(0); ++r) {
    std::copy_n(from.data() + r * width, width, to.row<float>(r) + first);
  }
}

}  // namespace

KvRows::KvRows(const TraceStore& store, const Transformer& model, PairSide side,
               std::unique_ptr<Stream> stream)
    : store_(store), model_(model), side_(side), stream_(std::move(stream)) {}

absl::StatusOr<std::unique_ptr<KvRows>> KvRows::Create(const TraceStore& store, const Transformer& model,
                                                       PairSide side) {
  SCD_ASSIGN_OR_RETURN(auto stream, model.backend().CreateStream());
  return absl::WrapUnique(new KvRows(store, model, side, std::move(stream)));
}

absl::Status KvRows::Read(const TracePiece& piece, std::int64_t layer, std::vector<float>* out) {
  const std::int64_t d_kv = store_.shape().d_kv;
  out->resize(static_cast<std::size_t>(piece.rows * 2 * d_kv));
  const TensorView rows = MatrixView(out->data(), piece.rows, 2 * d_kv);
  if (!piece.held_out) return Project(piece, layer, rows);
  SCD_RETURN_IF_ERROR(store_.ReadK(piece, layer, side_, &rows_));
  SCD_RETURN_IF_ERROR(store_.ReadV(piece, layer, side_, &other_));
  CopyColumns(rows_, 0, rows);
  CopyColumns(other_, d_kv, rows);
  return absl::OkStatus();
}

absl::Status KvRows::Project(const TracePiece& piece, std::int64_t layer, TensorView out) {
  Backend& backend = model_.backend();
  const std::int64_t hidden = store_.shape().hidden;
  const std::int64_t d_kv = store_.shape().d_kv;
  if (store_.shape().HiddenSlot(layer) < 0) {
    return absl::FailedPreconditionError(absl::StrCat("attention inputs of layer ", layer, " were not kept"));
  }
  if (piece.rows > max_rows_) {
    const auto bytes = [&](std::int64_t width) {
      return static_cast<std::size_t>(piece.rows * width) * sizeof(float);
    };
    SCD_ASSIGN_OR_RETURN(hidden_, backend.Allocate(MemoryKind::kDevice, bytes(hidden)));
    SCD_ASSIGN_OR_RETURN(kv_, backend.Allocate(MemoryKind::kDevice, bytes(2 * d_kv)));
    max_rows_ = piece.rows;
  }
  SCD_RETURN_IF_ERROR(store_.ReadHidden(piece, layer, side_, &rows_));
  const TensorView input = hidden_->View(DType::kF32, {piece.rows, hidden});
  const TensorView kv = kv_->View(DType::kF32, {piece.rows, 2 * d_kv});
  SCD_RETURN_IF_ERROR(backend.Copy(*stream_, input, MatrixView(rows_.data(), piece.rows, hidden)));
  SCD_RETURN_IF_ERROR(ProjectKv(backend, *stream_, model_.kv_projection(layer), input, kv.columns(0, d_kv),
                                kv.columns(d_kv, d_kv)));
  SCD_RETURN_IF_ERROR(backend.Copy(*stream_, out, kv));
  return backend.Synchronize(*stream_);
}

}  // namespace scd
