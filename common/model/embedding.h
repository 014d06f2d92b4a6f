// The table of token embeddings: dense in the backend's memory, or quantised blocks of the file on the host,
// of which a pass writes out the rows that it needs.
#ifndef SCD_COMMON_MODEL_EMBEDDING_H_
#define SCD_COMMON_MODEL_EMBEDDING_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/model/device_tensor.h"
#include "common/model/weight_store.h"
#include "kernels/backend.h"

namespace scd {

class Embedding {
 public:
  Embedding() = default;
  // [vocab, hidden] f32, f16 or bf16.
  explicit Embedding(DeviceTensor table) : table_(std::move(table)) {}
  // For backends whose memory is the host's.
  explicit Embedding(QuantizedMatrix blocks) : blocks_(std::move(blocks)) {}

  // out[i] = the row of ids[i], f32; host_ids and ids are the same numbers on the host and on the device,
  // each in [0, vocab).
  absl::Status Embed(Backend& backend, Stream& stream, absl::Span<const std::int32_t> host_ids,
                     ConstTensorView ids, TensorView out) const;

  std::int64_t size_bytes() const;

 private:
  DeviceTensor table_;
  std::optional<QuantizedMatrix> blocks_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_EMBEDDING_H_
