// The sections of YAML files that name a model: path, adapter, config and weights.
#ifndef SCD_COMMON_MODEL_MODEL_YAML_H_
#define SCD_COMMON_MODEL_MODEL_YAML_H_

#include <string_view>

#include "common/config/yaml_reader.h"
#include "common/model/model_source.h"
#include "kernels/backend.h"

namespace scd {

// Reads section `key` of root into *source; what it does not say stays as it is. `weights: f32` and `bf16`
// say how products are computed too: they set *math where it is auto, and where it is the other of the two it
// is an error of the section. Without `math` both words mean dense.
void ReadModelSource(YamlSection root, std::string_view key, ModelSource* source, MathMode* math);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_MODEL_YAML_H_
