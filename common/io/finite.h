// A fast check that no number of a block of memory is NaN or infinite: what files and frames bring in is
// looked at once, where it enters, because one such number would spread through every later product.
#ifndef SCD_COMMON_IO_FINITE_H_
#define SCD_COMMON_IO_FINITE_H_

#include <cstddef>

#include "absl/types/span.h"
#include "kernels/dtype.h"

namespace scd {

// Whether `bytes`, read as little-endian numbers of `dtype`, hold neither NaN nor infinity; no alignment is
// needed and bytes after the last whole number are not looked at. Integers are always finite.
bool AllFinite(DType dtype, absl::Span<const std::byte> bytes);

}  // namespace scd

#endif  // SCD_COMMON_IO_FINITE_H_
