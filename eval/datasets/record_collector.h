// Takes what a reader finds in a file, record by record: good ones until the limit, malformed ones by the
// option. Errors do not name the file; whoever opened it does.
#ifndef SCD_EVAL_DATASETS_RECORD_COLLECTOR_H_
#define SCD_EVAL_DATASETS_RECORD_COLLECTOR_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "eval/datasets/items.h"
#include "eval/datasets/record_fields.h"

namespace scd {

template <typename Item>
class RecordCollector {
 public:
  RecordCollector(std::string source, const ReadOptions& options) : options_(options) {
    dataset_.source = std::move(source);
  }

  bool full() const {
    return options_.limit > 0 && static_cast<std::int64_t>(dataset_.items.size()) >= options_.limit;
  }

  // `bytes`: what the item holds.
  absl::Status Add(Item item, std::size_t bytes) {
    bytes += sizeof(Item);
    if (bytes > options_.max_bytes - bytes_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("its records take more than ", options_.max_bytes, " bytes; set a limit"));
    }
    bytes_ += bytes;
    ++num_records_;
    dataset_.items.push_back(std::move(item));
    return absl::OkStatus();
  }

  // `error`: a FieldError, or what else is wrong with the record at `path`. Returns an error where a
  // malformed record ends the reading.
  absl::Status AddMalformed(const absl::Status& error, absl::string_view path) {
    MalformedRecord record{num_records_++, FieldPath(error, path), std::string(error.message())};
    if (options_.on_error == OnError::kStop) {
      return absl::InvalidArgumentError(
          absl::StrCat("record ", record.index, ": ", record.path, ": ", record.message));
    }
    ++dataset_.num_malformed;
    if (dataset_.malformed.size() < kMaxReportedRecords) dataset_.malformed.push_back(std::move(record));
    return absl::OkStatus();
  }

  Dataset<Item> Take(absl::string_view format) {
    dataset_.format = std::string(format);
    return std::move(dataset_);
  }

 private:
  ReadOptions options_;
  Dataset<Item> dataset_;
  std::int64_t num_records_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace scd

#endif  // SCD_EVAL_DATASETS_RECORD_COLLECTOR_H_
