#include "eval/datasets/qa_dataset.h"

#include "absl/strings/str_cat.h"
#include "common/io/mapped_file.h"
#include "eval/datasets/qa_readers.h"
#include "eval/datasets/source_text.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

struct Layout {
  QaFormat format;
  std::string_view name;
  absl::Status (*read)(absl::string_view text, QaCollector* collector);
};

constexpr Layout kLayouts[] = {{QaFormat::kSquadV1, "squad_v1", ReadSquadV1},
                               {QaFormat::kSquadV2, "squad_v2", ReadSquadV2},
                               {QaFormat::kCmrc2018, "cmrc2018", ReadCmrc2018},
                               {QaFormat::kCmrc2018Flat, "cmrc2018_flat", ReadCmrc2018Flat},
                               {QaFormat::kHotpotQa, "hotpotqa", ReadHotpotQa},
                               {QaFormat::kJsonl, "jsonl", ReadQaJsonl}};

const Layout& LayoutOf(QaFormat format) {
  for (const Layout& layout : kLayouts) {
    if (layout.format == format) return layout;
  }
  return kLayouts[0];
}

}  // namespace

std::string QaFormatName(QaFormat format) {
  return std::string(LayoutOf(format).name);
}

std::optional<QaFormat> ParseQaFormat(std::string_view name) {
  for (const Layout& layout : kLayouts) {
    if (layout.name == name) return layout.format;
  }
  return std::nullopt;
}

std::vector<std::string> QaFormatNames() {
  std::vector<std::string> names;
  for (const Layout& layout : kLayouts) names.emplace_back(layout.name);
  return names;
}

absl::StatusOr<Dataset<QaItem>> ReadQaDataset(const std::string& path, std::optional<QaFormat> format,
                                              const ReadOptions& options) {
  SCD_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  const absl::string_view text = WithoutByteOrderMark(file->text());
  if (!format) {
    const absl::StatusOr<QaFormat> detected = DetectQaFormat(text);
    if (!detected.ok()) return AtFile(path, detected.status());
    format = *detected;
  }
  const Layout& layout = LayoutOf(*format);
  QaCollector collector(path, options);
  SCD_RETURN_IF_ERROR(AtFile(path, layout.read(text, &collector)));
  Dataset<QaItem> dataset = collector.Take(QaFormatName(*format));
  if (dataset.items.empty() && dataset.num_malformed == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds no question (read as ", dataset.format, ")"));
  }
  return dataset;
}

}  // namespace scd
