// K and V of one model for rows of the store: read where they were kept, else made from the kept attention
// inputs by the model's own product.
#ifndef SCD_CALIBRATE_KV_ROWS_H_
#define SCD_CALIBRATE_KV_ROWS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibrate/trace_store.h"
#include "common/model/transformer.h"
#include "kernels/backend.h"

namespace scd {

// For one thread at a time; several may work side by side.
class KvRows {
 public:
  // model: that of `side`. Both outlive this.
  static absl::StatusOr<std::unique_ptr<KvRows>> Create(const TraceStore& store, const Transformer& model,
                                                        PairSide side);

  // out is resized to [rows, 2 d_kv]: K before RoPE (after k_norm) beside V. FAILED_PRECONDITION where the
  // store has neither them nor this layer's attention inputs.
  absl::Status Read(const TracePiece& piece, std::int64_t layer, std::vector<float>* out);

 private:
  KvRows(const TraceStore& store, const Transformer& model, PairSide side, std::unique_ptr<Stream> stream);
  absl::Status Project(const TracePiece& piece, std::int64_t layer, TensorView out);

  const TraceStore& store_;
  const Transformer& model_;
  const PairSide side_;
  const std::unique_ptr<Stream> stream_;
  std::int64_t max_rows_ = 0;        // of what follows
  std::unique_ptr<Buffer> hidden_;   // [max_rows, hidden] f32 on the device
  std::unique_ptr<Buffer> kv_;       // [max_rows, 2 d_kv] f32 on the device
  std::vector<float> rows_, other_;  // on the host
};

}  // namespace scd

#endif  // SCD_CALIBRATE_KV_ROWS_H_
