#include "common/model/chat_template_source.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/io/json.h"
#include "common/io/mapped_file.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kMaxTemplateBytes = std::size_t{1} << 20;

absl::StatusOr<std::string> FromTokenizerConfig(const JsonObject& config) {
  if (!config.Has("chat_template")) return std::string();
  const nlohmann::json& value = *config.Find("chat_template");
  if (!value.is_array()) return config.String("chat_template");
  for (const nlohmann::json& item : value) {
    SCD_ASSIGN_OR_RETURN(const JsonObject named,
                         JsonObject::Create(item, absl::StrCat(config.path(), ": chat_template")));
    SCD_ASSIGN_OR_RETURN(const std::string name, named.String("name"));
    if (name == "default") return named.String("template");
  }
  return std::string();
}

}  // namespace

absl::StatusOr<std::string> ChatTemplateSource(const std::string& folder) {
  const std::filesystem::path path(folder);
  auto file = MappedFile::Open((path / "chat_template.jinja").string());
  if (file.ok()) {
    if ((*file)->size() > kMaxTemplateBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat((*file)->path(), ": is larger than ", kMaxTemplateBytes, " bytes"));
    }
    return std::string((*file)->text());
  }
  if (!absl::IsNotFound(file.status())) return file.status();
  const std::string config_path = (path / "tokenizer_config.json").string();
  const auto document = ParseJsonFile(config_path);
  if (absl::IsNotFound(document.status())) return std::string();
  if (!document.ok()) return document.status();
  SCD_ASSIGN_OR_RETURN(const JsonObject config, JsonObject::Create(*document, config_path));
  return FromTokenizerConfig(config);
}

}  // namespace scd
