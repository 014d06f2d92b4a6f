// Where a Hugging Face folder keeps its chat template.
#ifndef SCD_COMMON_MODEL_CHAT_TEMPLATE_SOURCE_H_
#define SCD_COMMON_MODEL_CHAT_TEMPLATE_SOURCE_H_

#include <string>

#include "absl/status/statusor.h"

namespace scd {

// chat_template.jinja, else chat_template of tokenizer_config.json (a text, or a list of named ones, of which
// "default" is taken). Empty where the folder has none. INVALID_ARGUMENT for a template of another form.
absl::StatusOr<std::string> ChatTemplateSource(const std::string& folder);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_CHAT_TEMPLATE_SOURCE_H_
