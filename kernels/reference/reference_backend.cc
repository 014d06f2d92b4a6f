#include "kernels/reference/reference_backend.h"

#include "absl/memory/memory.h"

namespace scd {

absl::StatusOr<std::unique_ptr<Backend>> ReferenceBackend::Create(const BackendOptions& options) {
  return absl::WrapUnique<Backend>(new ReferenceBackend(options.math == MathMode::kBF16));
}

std::string ReferenceBackend::Describe() const {
  return round_to_bf16_ ? "reference: plain loops, 1 thread, products of bf16 operands"
                        : "reference: plain loops, 1 thread, f32";
}

}  // namespace scd
