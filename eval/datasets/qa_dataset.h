// A file of questions in one of the published layouts.
#ifndef SCD_EVAL_DATASETS_QA_DATASET_H_
#define SCD_EVAL_DATASETS_QA_DATASET_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval/datasets/items.h"

namespace scd {

enum class QaFormat { kSquadV1, kSquadV2, kCmrc2018, kCmrc2018Flat, kHotpotQa, kJsonl };

// "squad_v1", "squad_v2", "cmrc2018", "cmrc2018_flat", "hotpotqa", "jsonl".
std::string QaFormatName(QaFormat format);
std::optional<QaFormat> ParseQaFormat(std::string_view name);
std::vector<std::string> QaFormatNames();

// The layout that a file's first records show. INVALID_ARGUMENT naming the choices where none or several fit.
absl::StatusOr<QaFormat> DetectQaFormat(absl::string_view text);

// `format` absent: detected. Errors begin with the path: of the file (as MappedFile::Open), INVALID_ARGUMENT
// for a text that is not of the layout, holds no record at all, or (on_error kStop) for the first malformed
// record; RESOURCE_EXHAUSTED for records that do not fit in memory.
absl::StatusOr<Dataset<QaItem>> ReadQaDataset(const std::string& path, std::optional<QaFormat> format,
                                              const ReadOptions& options);

}  // namespace scd

#endif  // SCD_EVAL_DATASETS_QA_DATASET_H_
