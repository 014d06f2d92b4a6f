// The section `cuda` of the daemons' YAML.
#ifndef SCD_COMMON_CONFIG_CUDA_YAML_H_
#define SCD_COMMON_CONFIG_CUDA_YAML_H_

#include "common/config/yaml_reader.h"
#include "kernels/backend_factory.h"

namespace scd {

// plugin, device, memory_mib, scratch_mib; matters where `device` of the root is cuda.
void ReadCudaOptions(YamlSection section, CudaOptions* options);

}  // namespace scd

#endif  // SCD_COMMON_CONFIG_CUDA_YAML_H_
