// The readers of each layout of texts to score, one source file each.
#ifndef SCD_EVAL_DATASETS_LM_READERS_H_
#define SCD_EVAL_DATASETS_LM_READERS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "eval/datasets/lm_dataset.h"
#include "eval/datasets/record_collector.h"

namespace scd {

using LmCollector = RecordCollector<LmItem>;

absl::Status ReadTextWindows(absl::string_view text, const TextWindows& windows, LmCollector* collector);
absl::Status ReadLmJsonl(absl::string_view text, LmCollector* collector);

}  // namespace scd

#endif  // SCD_EVAL_DATASETS_LM_READERS_H_
