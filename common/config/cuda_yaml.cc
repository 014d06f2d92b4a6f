#include "common/config/cuda_yaml.h"

namespace scd {

void ReadCudaOptions(YamlSection section, CudaOptions* options) {
  section.String("plugin", &options->plugin);
  section.Int("device", &options->device, {.min = 0, .max = 1023});
  if (section.IsWord("memory_mib", "auto")) {
    options->memory_mib.reset();
  } else {
    section.Int("memory_mib", &options->memory_mib, {.min = 0, .max = 1 << 24, .unit = "MiB"});
  }
  section.Int("scratch_mib", &options->scratch_mib, {.min = 1, .max = 65536, .unit = "MiB"});
}

}  // namespace scd
