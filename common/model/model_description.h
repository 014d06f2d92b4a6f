// How a loaded model is named to people.
#ifndef SCD_COMMON_MODEL_MODEL_DESCRIPTION_H_
#define SCD_COMMON_MODEL_MODEL_DESCRIPTION_H_

#include <string>

#include "common/model/model_source.h"
#include "common/model/transformer.h"

namespace scd {

// Model::description with how the weights are kept: "... (llama, 30 layers, 135 M weights), weights q4_1,
// q8_0: 128 MiB".
std::string DescribeLoaded(const Model& model, const Transformer& transformer);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_MODEL_DESCRIPTION_H_
