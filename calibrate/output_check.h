// Where a run may write, seen before it begins.
#ifndef SCD_CALIBRATE_OUTPUT_CHECK_H_
#define SCD_CALIBRATE_OUTPUT_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace scd {

// Whether a file can be made in the nearest folder of `path` that is there. Errors name `field`.
absl::Status CheckWritable(absl::string_view field, const std::string& path);

// Whether a bundle can be written to the folder `path`: what WriteBundle would refuse at the end.
absl::Status CheckOutput(const std::string& path);

}  // namespace scd

#endif  // SCD_CALIBRATE_OUTPUT_CHECK_H_
