// Early return of errors: the two macros of the project.
//
//   SCD_RETURN_IF_ERROR(DoIt());
//   SCD_ASSIGN_OR_RETURN(auto value, Make());
#ifndef SCD_KERNELS_STATUS_MACROS_H_
#define SCD_KERNELS_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define SCD_RETURN_IF_ERROR(expr)                                                   \
  do {                                                                              \
    if (::absl::Status scd_status_ = (expr); !scd_status_.ok()) return scd_status_; \
  } while (false)

#define SCD_CONCAT_INNER_(a, b) a##b
#define SCD_CONCAT_(a, b) SCD_CONCAT_INNER_(a, b)

#define SCD_ASSIGN_OR_RETURN(lhs, expr) SCD_ASSIGN_OR_RETURN_(SCD_CONCAT_(scd_statusor_, __LINE__), lhs, expr)

#define SCD_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                          \
  if (!tmp.ok()) return tmp.status();         \
  lhs = *std::move(tmp)

#endif  // SCD_KERNELS_STATUS_MACROS_H_
