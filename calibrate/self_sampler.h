// Prefixes for a calibration without data: the two models continue seed prompts in turns.
#ifndef SCD_CALIBRATE_SELF_SAMPLER_H_
#define SCD_CALIBRATE_SELF_SAMPLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "calibrate/config.h"
#include "calibrate/pair_runner.h"
#include "calibrate/run_context.h"
#include "calibrate/seed_prompts.h"
#include "common/io/digest.h"
#include "common/model/tokenizer.h"
#include "common/model/transformer.h"

namespace scd {

struct SamplingRules {
  const Tokenizer* tokenizer = nullptr;  // the consumer's
  std::vector<bool> banned;              // by id, of the vocabulary both models have: never sampled
  std::int64_t max_tokens = 512;         // of one prefix
};

// Never sampled: special tokens (they end or structure texts) and ids that one of the models lacks or maps
// otherwise.
std::vector<bool> BannedIds(const Tokenizer& tokenizer, std::int64_t vocab_size,
                            const std::vector<std::int32_t>& untranslatable);

// source.limit prefixes. Batches alternate between the models; each that is done is kept in the work folder
// under `record`, for `inputs` (digest of both models and their tokenizers).
absl::StatusOr<Prefixes> SamplePrefixes(const RunContext& context, const Transformer& producer,
                                        const Transformer& consumer, const SamplingRules& rules,
                                        const CorpusSource& source, const std::string& record,
                                        const Digest& inputs);

}  // namespace scd

#endif  // SCD_CALIBRATE_SELF_SAMPLER_H_
