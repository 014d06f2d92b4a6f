#include "eval/load_data.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/model_source.h"
#include "eval/daemon_models.h"
#include "eval/datasets/lm_dataset.h"
#include "eval/datasets/prompt_template.h"
#include "eval/datasets/qa_dataset.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kToldRecords = 5;

// The consumer's tokenizer, opened when the first text needs it: windows of token ids need none.
class LazyTokenizer {
 public:
  explicit LazyTokenizer(const DaemonsConfig& daemons) : daemons_(daemons) {}

  absl::StatusOr<const Tokenizer*> Get() {
    if (model_) return model_->tokenizer.get();
    SCD_ASSIGN_OR_RETURN(const DaemonModels models, ReadDaemonModels(daemons_));
    SCD_ASSIGN_OR_RETURN(model_, OpenModel(models.consumer));
    return model_->tokenizer.get();
  }

  absl::StatusOr<std::vector<std::int32_t>> Ids(const IdsOrText& item, bool begins) {
    if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&item)) return *ids;
    SCD_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, Get());
    return tokenizer->Encode(std::get<std::string>(item),
                             {.allow_special_tokens = false, .add_default_tokens = begins});
  }

 private:
  const DaemonsConfig& daemons_;
  std::optional<Model> model_;
};

template <typename Item>
void TellMalformed(const Dataset<Item>& dataset, Log& log) {
  if (dataset.num_malformed == 0) return;
  log.Warning(absl::StrCat(dataset.source, ": ", dataset.num_malformed, " malformed records are left out"));
  for (std::size_t i = 0; i < dataset.malformed.size() && i < kToldRecords; ++i) {
    const MalformedRecord& record = dataset.malformed[i];
    log.Warning(absl::StrCat("  record ", record.index, ": ", record.path, ": ", record.message));
  }
}

ReadOptions OptionsOf(const DataConfig& config, std::int64_t count) {
  return {.on_error = config.skip_malformed ? OnError::kSkip : OnError::kStop, .limit = count};
}

absl::Status LoadWindows(const EvalConfig& config, Log& log, EvalData* data) {
  const WindowsConfig& windows = config.data.windows;
  LazyTokenizer tokenizer(config.daemons);
  TextWindows text;
  if (windows.format != LmFormat::kJsonl) {
    SCD_ASSIGN_OR_RETURN(const Tokenizer* opened, tokenizer.Get());
    SCD_ASSIGN_OR_RETURN(text, WindowsFor(*opened, windows.prefix_tokens, windows.continuation_tokens));
  }
  SCD_ASSIGN_OR_RETURN(const Dataset<LmItem> dataset, ReadLmDataset(windows.path, windows.format, text,
                                                                    OptionsOf(config.data, windows.count)));
  TellMalformed(dataset, log);
  for (const LmItem& item : dataset.items) {
    SCD_ASSIGN_OR_RETURN(std::vector<std::int32_t> prefix, tokenizer.Ids(item.prefix, /*begins=*/true));
    SCD_ASSIGN_OR_RETURN(std::vector<std::int32_t> continuation,
                         tokenizer.Ids(item.continuation, /*begins=*/false));
    data->windows.push_back({std::move(prefix), std::move(continuation)});
  }
  data->window_source = dataset.source;
  return absl::OkStatus();
}

absl::Status LoadQuestions(const EvalConfig& config, Log& log, EvalData* data) {
  const QuestionsConfig& questions = config.data.questions;
  SCD_ASSIGN_OR_RETURN(const PromptTemplate prompt, PromptTemplate::Parse(questions.prompt));
  SCD_ASSIGN_OR_RETURN(Dataset<QaItem> dataset, ReadQaDataset(questions.path, questions.format,
                                                              OptionsOf(config.data, questions.count)));
  TellMalformed(dataset, log);
  for (QaItem& item : dataset.items) {
    SCD_ASSIGN_OR_RETURN(std::string text, prompt.Render(item));
    data->questions.push_back(
        {std::move(text), std::move(item.references), questions.scorer.value_or(item.scorer)});
  }
  data->question_source = dataset.source;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EvalData> LoadEvalData(const EvalConfig& config, const DataNeed& need, Log& log) {
  EvalData data;
  if (need.windows) SCD_RETURN_IF_ERROR(LoadWindows(config, log, &data));
  if (need.questions) SCD_RETURN_IF_ERROR(LoadQuestions(config, log, &data));
  return data;
}

}  // namespace scd
