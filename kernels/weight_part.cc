#include "kernels/weight_part.h"

#include "kernels/checks.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

absl::Status AddUpdate(Backend& backend, Stream& stream, const ConstTensorView& x, const WeightPart& part,
                       const TensorView& out) {
  return part.update == nullptr ? absl::OkStatus() : part.update->AddTo(backend, stream, x, out);
}

// Whether `second` holds the columns just after those of `first`, row for row.
bool AreNeighbours(const TensorView& first, const TensorView& second) {
  return first.rank() == 2 && second.rank() == 2 && first.dim(0) == second.dim(0) &&
         first.dtype() == second.dtype() && first.device() == second.device() &&
         first.stride(0) == second.stride(0) && first.stride(0) >= first.dim(1) + second.dim(1) &&
         first.columns(first.dim(1), 1).data() == second.data();
}

}  // namespace

std::int64_t WeightPart::end() const {
  return ResultColumns(*weight, columns).end;
}

absl::Status MultiplyPart(Backend& backend, Stream& stream, const ConstTensorView& x, const WeightPart& part,
                          const TensorView& out, bool accumulate) {
  SCD_RETURN_IF_ERROR(
      backend.MatMul(stream, x, *part.weight, out, {.accumulate = accumulate, .columns = part.columns}));
  return AddUpdate(backend, stream, x, part, out);
}

absl::Status MultiplyParts(Backend& backend, Stream& stream, const ConstTensorView& x,
                           const WeightPart& first, const TensorView& first_out, const WeightPart& second,
                           const TensorView& second_out) {
  if (first.weight != second.weight || first.end() != second.begin() ||
      !AreNeighbours(first_out, second_out)) {
    SCD_RETURN_IF_ERROR(MultiplyPart(backend, stream, x, first, first_out));
    return MultiplyPart(backend, stream, x, second, second_out);
  }
  TensorView both(first_out.data(), first_out.dtype(), Shape{first_out.dim(0), first_out.stride(0)},
                  first_out.device());
  SCD_RETURN_IF_ERROR(backend.MatMul(stream, x, *first.weight,
                                     both.columns(0, first_out.dim(1) + second_out.dim(1)),
                                     {.columns = {first.begin(), second.end()}}));
  SCD_RETURN_IF_ERROR(AddUpdate(backend, stream, x, first, first_out));
  return AddUpdate(backend, stream, x, second, second_out);
}

}  // namespace scd
