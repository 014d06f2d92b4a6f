// How much memory of a GPU a calibration takes at its peak, known and tried before anything runs.
#ifndef SCD_CALIBRATE_DEVICE_MEMORY_H_
#define SCD_CALIBRATE_DEVICE_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "calibrate/config.h"
#include "common/config/model_config.h"
#include "kernels/backend.h"

namespace scd {

struct DeviceMemory {
  std::int64_t models_bytes = 0;  // weights of both
  std::int64_t traces_bytes = 0;  // sums of products of K and V of every layer, while the traces run
  std::int64_t fits_bytes = 0;    // sums of the fits of attention inputs that run side by side afterwards

  std::int64_t peak_bytes() const;
};

// `config` as ResolveForModel left it. Activations, pages and the buffers of copies come on top: some hundred
// MiB.
DeviceMemory DeviceMemoryOf(const CalibrateConfig& config, const ModelConfig& model);

// RESOURCE_EXHAUSTED, with the parts and what makes them smaller, where the peak is not free on the device.
absl::Status CheckDeviceMemory(Backend& backend, const DeviceMemory& memory);

}  // namespace scd

#endif  // SCD_CALIBRATE_DEVICE_MEMORY_H_
