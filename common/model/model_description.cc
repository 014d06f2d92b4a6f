#include "common/model/model_description.h"

#include "absl/strings/str_cat.h"

namespace scd {

std::string DescribeLoaded(const Model& model, const Transformer& transformer) {
  return absl::StrCat(model.description, ", weights ", transformer.weights_description(), ": ",
                      transformer.weight_bytes() >> 20, " MiB");
}

}  // namespace scd
