// Documents that are one JSON list of records.
#ifndef SCD_EVAL_DATASETS_LIST_LAYOUT_H_
#define SCD_EVAL_DATASETS_LIST_LAYOUT_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "eval/datasets/qa_readers.h"
#include "eval/datasets/record_fields.h"

namespace scd {

// Calls read_record for every element, "[3]" being its path, until the collector is full; it reports what is
// malformed in an element itself. Elements that are no JSON are reported here.
absl::Status ReadListLayout(absl::string_view text,
                            const std::function<absl::Status(const RecordField& record)>& read_record,
                            QaCollector* collector);

}  // namespace scd

#endif  // SCD_EVAL_DATASETS_LIST_LAYOUT_H_
