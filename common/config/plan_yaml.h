// Fields of plans that several configuration files have. Errors stay in the reader.
#ifndef SCD_COMMON_CONFIG_PLAN_YAML_H_
#define SCD_COMMON_CONFIG_PLAN_YAML_H_

#include <optional>
#include <string_view>
#include <vector>

#include "common/config/codec.h"
#include "common/config/layer_plan.h"
#include "common/config/yaml_reader.h"

namespace scd {

// "auto" or [first, last], both included; absent or auto: stays as it is.
void ReadLayerRange(YamlSection& section, std::string_view key, std::optional<LayerRange>* range);

// The name of a codec, or "auto"; absent or auto: stays as it is.
void ReadCodec(YamlSection& section, std::string_view key, std::optional<Codec>* codec);

// A list of names, each once; absent: stays as it is.
void ReadCodecs(YamlSection& section, std::string_view key, std::vector<Codec>* codecs);

}  // namespace scd

#endif  // SCD_COMMON_CONFIG_PLAN_YAML_H_
