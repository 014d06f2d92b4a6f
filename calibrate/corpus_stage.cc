#include "calibrate/corpus_stage.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibrate/seed_prompts.h"
#include "calibrate/self_sampler.h"
#include "common/io/mapped_file.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

absl::Status AddSampled(const RunContext& context, const CalibrateConfig& config, const ModelPair& pair,
                        const LoadedPair& loaded, std::size_t index, Corpus* corpus) {
  const SamplingRules rules{
      .tokenizer = pair.consumer.tokenizer.get(),
      .banned = BannedIds(*pair.consumer.tokenizer, pair.vocab_size(), pair.untranslatable_ids),
      .max_tokens = MaxPrefixTokens(config, pair)};
  SCD_ASSIGN_OR_RETURN(Prefixes prefixes, SamplePrefixes(context, *loaded.producer, *loaded.consumer, rules,
                                                         config.corpus.sources[index],
                                                         absl::StrCat("sampled-", index), pair.digest()));
  const std::size_t before = corpus->prefixes().size();
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    SCD_RETURN_IF_ERROR(corpus->AddIds(absl::StrCat("self-sampled prefix ", i), std::move(prefixes[i])));
  }
  corpus->Describe(static_cast<std::int64_t>(corpus->prefixes().size() - before),
                   "sampled from the two models");
  return absl::OkStatus();
}

}  // namespace

std::int64_t MaxPrefixTokens(const CalibrateConfig& config, const ModelPair& pair) {
  return std::min({config.corpus.max_prefix_tokens, pair.producer.config.max_positions,
                   pair.consumer.config.max_positions});
}

Corpus MakeCorpus(const CalibrateConfig& config, const ModelPair& pair) {
  CorpusRules rules;
  rules.tokenizer = pair.consumer.tokenizer.get();
  rules.vocab_size = pair.vocab_size();
  rules.untranslatable_ids = pair.untranslatable_ids;
  rules.min_tokens = config.native_head + 2;
  rules.max_tokens = MaxPrefixTokens(config, pair);
  return Corpus(std::move(rules), config.corpus.max_prefixes);
}

absl::Status AddFileSource(const CorpusSource& source, Corpus* corpus) {
  switch (source.kind) {
    case CorpusSourceKind::kJsonl:
      return corpus->AddJsonl(source);
    case CorpusSourceKind::kText:
      return corpus->AddText(source);
    case CorpusSourceKind::kSelfSample:
      break;
  }
  SCD_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(source.path));
  return ParseSeedPrompts(file->text(), source.path).status();
}

absl::StatusOr<Corpus> RunCorpusStage(const RunContext& context, const CalibrateConfig& config,
                                      const ModelPair& pair, const LoadedPair& loaded) {
  Corpus corpus = MakeCorpus(config, pair);
  for (std::size_t i = 0; i < config.corpus.sources.size() && !corpus.full(); ++i) {
    const CorpusSource& source = config.corpus.sources[i];
    if (source.kind == CorpusSourceKind::kSelfSample) {
      SCD_RETURN_IF_ERROR(AddSampled(context, config, pair, loaded, i, &corpus));
    } else {
      SCD_RETURN_IF_ERROR(AddFileSource(source, &corpus));
    }
  }
  if (corpus.num_too_short() > 0) {
    context.log.Warning(absl::StrCat("corpus: left out ", corpus.num_too_short(), " prefixes under ",
                                     config.native_head + 2, " tokens"));
  }
  if (corpus.num_untranslatable() > 0) {
    context.log.Warning(absl::StrCat("corpus: left out ", corpus.num_untranslatable(),
                                     " prefixes with ids that the producer lacks or maps to other text"));
  }
  if (corpus.prefixes().size() < 2) {
    return absl::FailedPreconditionError(
        absl::StrCat("corpus: ", corpus.prefixes().size(),
                     " usable prefixes; at least 2 are needed, one of them held out of the fits"));
  }
  return corpus;
}

}  // namespace scd
