// Rows that are needed again after they were accumulated: the attention inputs that aligners are trained on,
// and every row of held-out prefixes. They lie in a scratch file, so that memory stays bounded whatever the
// corpus.
#ifndef SCD_CALIBRATE_TRACE_STORE_H_
#define SCD_CALIBRATE_TRACE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "calibrate/file_io.h"
#include "calibrate/trace_tap.h"

namespace scd {

enum class PairSide : std::uint8_t { kProducer, kConsumer };

// Consecutive rows of one prefix in the file.
struct TracePiece {
  std::int64_t prefix = 0;
  std::int64_t first_position = 0;
  std::int64_t rows = 0;
  bool held_out = false;  // K and V are kept too
  std::int64_t offset = 0;
};

class TraceStore {
 public:
  // Goes on after `pieces`, which an earlier run left in the file: what stands after them is cut off.
  static absl::StatusOr<std::unique_ptr<TraceStore>> Open(const std::string& path, const TraceShape& shape,
                                                          std::vector<TracePiece> pieces);

  // Adds rows [first_row, first_row + piece.rows) of both models' last pass; piece.offset is filled in.
  // OUT_OF_RANGE where an attention input is beyond f16.
  absl::Status Append(TracePiece piece, const TraceTap& producer, const TraceTap& consumer,
                      std::int64_t first_row);
  // To the disk.
  absl::Status Flush() { return file_->Flush(); }

  const TraceShape& shape() const { return shape_; }
  const std::vector<TracePiece>& pieces() const { return pieces_; }
  std::int64_t NumRows(bool held_out) const;

  // Bytes that `rows` rows take.
  static std::int64_t Bytes(const TraceShape& shape, std::int64_t rows, bool held_out);

  // Thread-safe. out is resized to [rows, hidden] and [rows, d_kv].
  absl::Status ReadHidden(const TracePiece& piece, std::int64_t layer, PairSide side,
                          std::vector<float>* out) const;
  absl::Status ReadK(const TracePiece& piece, std::int64_t layer, PairSide side,
                     std::vector<float>* out) const;
  absl::Status ReadV(const TracePiece& piece, std::int64_t layer, PairSide side,
                     std::vector<float>* out) const;

 private:
  TraceStore(const TraceShape& shape, std::unique_ptr<OutputFile> file, std::vector<TracePiece> pieces);
  absl::Status AppendRows(ConstTensorView rows);
  absl::Status ReadKv(const TracePiece& piece, std::int64_t layer, std::int64_t part,
                      std::vector<float>* out) const;

  const TraceShape shape_;
  const std::unique_ptr<OutputFile> file_;
  std::vector<TracePiece> pieces_;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_TRACE_STORE_H_
