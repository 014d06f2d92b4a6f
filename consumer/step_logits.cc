#include "consumer/step_logits.h"

#include <algorithm>
#include <cstddef>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// More than any top_k and top_p that are in use leave, as a rule; the sampler sees when it is not.
constexpr std::int64_t kNumBest = 64;

}  // namespace

StepLogits::StepLogits(Backend& backend, std::int64_t max_rows, std::int64_t vocabulary)
    : backend_(backend),
      max_rows_(max_rows),
      vocabulary_(vocabulary),
      num_best_(std::min(kNumBest, vocabulary)) {}

absl::StatusOr<std::unique_ptr<StepLogits>> StepLogits::Create(Backend& backend, std::int64_t max_rows,
                                                               std::int64_t vocabulary) {
  auto logits = absl::WrapUnique(new StepLogits(backend, max_rows, vocabulary));
  if (backend.device() == Device::kHost) return logits;
  const std::size_t bytes = static_cast<std::size_t>(max_rows * logits->numbers_of_row()) * sizeof(float);
  SCD_ASSIGN_OR_RETURN(logits->device_, backend.Allocate(MemoryKind::kDevice, bytes));
  SCD_ASSIGN_OR_RETURN(logits->host_, backend.Allocate(MemoryKind::kStaging, bytes));
  SCD_ASSIGN_OR_RETURN(logits->row_, backend.Allocate(MemoryKind::kStaging,
                                                      static_cast<std::size_t>(vocabulary) * sizeof(float)));
  return logits;
}

StepLogits::Places StepLogits::PlacesIn(const Buffer& buffer, std::int64_t rows) const {
  const auto at = [&](std::int64_t number, DType dtype, const Shape& shape) {
    return TensorView(static_cast<float*>(buffer.data()) + number * max_rows_, dtype, shape, buffer.device());
  };
  return {.values = at(0, DType::kF32, {rows, num_best_}),
          .ids = at(num_best_, DType::kI32, {rows, num_best_}),
          .sums = at(2 * num_best_, DType::kF32, {rows, 2}),
          .temperatures = at(2 * num_best_ + 2, DType::kF32, {rows})};
}

absl::Status StepLogits::Begin(Stream& stream, ConstTensorView logits, absl::Span<const float> temperatures) {
  stream_ = &stream;
  logits_ = logits;
  const auto rows = static_cast<std::int64_t>(temperatures.size());
  if (rows > max_rows_ || !(logits.shape() == Shape{rows, vocabulary_})) {
    return absl::InternalError(absl::StrCat("logits of a step have shape ", logits.shape().ToString(),
                                            ", expected [", rows, ", ", vocabulary_, "] and at most ",
                                            max_rows_, " rows"));
  }
  if (host_ == nullptr) return absl::OkStatus();
  const Places host = PlacesIn(*host_, rows);
  const Places device = PlacesIn(*device_, rows);
  std::copy(temperatures.begin(), temperatures.end(), host.temperatures.as<float>());
  SCD_RETURN_IF_ERROR(backend_.Copy(stream, device.temperatures, host.temperatures));
  SCD_RETURN_IF_ERROR(
      backend_.TopLogits(stream, logits, device.temperatures, {device.values, device.ids, device.sums}));
  SCD_RETURN_IF_ERROR(backend_.Copy(stream, host.values, device.values));
  SCD_RETURN_IF_ERROR(backend_.Copy(stream, host.ids, device.ids));
  SCD_RETURN_IF_ERROR(backend_.Copy(stream, host.sums, device.sums));
  return backend_.Synchronize(stream);
}

std::optional<TopOfRow> StepLogits::Top(std::int64_t row) const {
  if (host_ == nullptr) return std::nullopt;
  const Places host = PlacesIn(*host_, row + 1);
  const auto count = static_cast<std::size_t>(num_best_);
  return TopOfRow{.logits = {host.values.row<float>(row), count},
                  .ids = {host.ids.row<std::int32_t>(row), count},
                  .sum = host.sums.row<float>(row)[0],
                  .tempered_sum = host.sums.row<float>(row)[1],
                  .vocabulary = vocabulary_};
}

absl::StatusOr<absl::Span<const float>> StepLogits::Whole(std::int64_t row) {
  const auto count = static_cast<std::size_t>(vocabulary_);
  if (row_ == nullptr) return absl::Span<const float>(logits_.row<float>(row), count);
  const TensorView host = row_->View(DType::kF32, {1, vocabulary_});
  SCD_RETURN_IF_ERROR(backend_.Copy(*stream_, host, logits_.rows(row, 1)));
  SCD_RETURN_IF_ERROR(backend_.Synchronize(*stream_));
  return absl::Span<const float>(host.as<float>(), count);
}

}  // namespace scd
