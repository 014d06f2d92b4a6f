// The real pair's daemons on loopback, with the bundle that reference_bundle_test fits once for all tests.
#ifndef SCD_TESTS_E2E_REAL_PAIR_H_
#define SCD_TESTS_E2E_REAL_PAIR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace scd::testing {

// Where the reference bundle lies, in the build folder.
std::string ReferenceBundlePath();

struct RealPair {
  TempDir logs;
  std::unique_ptr<DaemonProcess> producer;
  std::unique_ptr<DaemonProcess> consumer;
};

// Starts both on free ports; `consumer_settings` are further --set arguments ("policy=require").
absl::StatusOr<std::unique_ptr<RealPair>> StartRealPair(
    const std::vector<std::string>& consumer_settings = {});

// A producer of the real pair; `address` "127.0.0.1:0" for a free port.
absl::StatusOr<std::unique_ptr<DaemonProcess>> StartRealProducer(const std::string& address,
                                                                 const std::string& log_path);

}  // namespace scd::testing

#endif  // SCD_TESTS_E2E_REAL_PAIR_H_
