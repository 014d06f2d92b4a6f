// What is measured on, as the configuration names it.
#ifndef SCD_EVAL_DATA_CONFIG_H_
#define SCD_EVAL_DATA_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/config/yaml_reader.h"
#include "eval/datasets/lm_dataset.h"
#include "eval/datasets/prompt_template.h"
#include "eval/datasets/qa_dataset.h"

namespace scd {

struct WindowsConfig {
  std::string path = "../shared/data/eval_lm.jsonl";
  std::optional<LmFormat> format = LmFormat::kJsonl;  // absent: detected
  std::int64_t count = 10;                            // at most; 0: all
  std::int64_t prefix_tokens = 256;                   // of plain text: handed over
  std::int64_t continuation_tokens = 128;             // of plain text: scored
};

struct QuestionsConfig {
  std::string path = "../shared/data/eval_qa.jsonl";
  std::optional<QaFormat> format;  // absent: detected
  std::int64_t count = 90;         // at most; 0: all
  std::string prompt = std::string(kDefaultPromptTemplate);
  std::optional<QaScorer> scorer;  // absent: the data set's own
};

struct DataConfig {
  WindowsConfig windows;
  QuestionsConfig questions;
  bool skip_malformed = false;  // malformed records are left out and reported; else the first ends the run
};

// Errors stay in the reader.
void ReadDataConfig(YamlSection section, DataConfig* config);

}  // namespace scd

#endif  // SCD_EVAL_DATA_CONFIG_H_
