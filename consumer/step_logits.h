// The logits of a pass as samplers want them. Where they are in the host's memory a row is read in place;
// elsewhere the device finds the best of each row, and a whole row comes over only when a sampler asks for
// it.
//
// Belongs to the engine's thread.
#ifndef SCD_CONSUMER_STEP_LOGITS_H_
#define SCD_CONSUMER_STEP_LOGITS_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "consumer/sampler.h"
#include "kernels/backend.h"

namespace scd {

class StepLogits {
 public:
  // For passes of at most max_rows rows of logits; `backend` outlives this.
  static absl::StatusOr<std::unique_ptr<StepLogits>> Create(Backend& backend, std::int64_t max_rows,
                                                            std::int64_t vocabulary);

  // logits [rows, vocabulary] on the backend's device, written on `stream`, valid until the last call for
  // them; temperatures [rows] of their samplers.
  absl::Status Begin(Stream& stream, ConstTensorView logits, absl::Span<const float> temperatures);

  // Nothing where the whole row is at hand anyway.
  std::optional<TopOfRow> Top(std::int64_t row) const;
  absl::StatusOr<absl::Span<const float>> Whole(std::int64_t row);

 private:
  // Values, ids, sums and temperatures of rows, beside each other.
  struct Places {
    TensorView values, ids, sums, temperatures;
  };

  StepLogits(Backend& backend, std::int64_t max_rows, std::int64_t vocabulary);
  Places PlacesIn(const Buffer& buffer, std::int64_t rows) const;
  std::int64_t numbers_of_row() const { return 2 * num_best_ + 3; }

  Backend& backend_;
  const std::int64_t max_rows_;
  const std::int64_t vocabulary_;
  const std::int64_t num_best_;
  // Null where the device's memory is the host's.
  std::unique_ptr<Buffer> device_, host_;  // of max_rows, as Places
  std::unique_ptr<Buffer> row_;            // [vocabulary], for Whole
  Stream* stream_ = nullptr;
  ConstTensorView logits_;
};

}  // namespace scd

#endif  // SCD_CONSUMER_STEP_LOGITS_H_
