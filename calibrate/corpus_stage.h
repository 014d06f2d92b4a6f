// Gathers the prefixes of a calibration from every source of the configuration, sampling those that no file
// gives.
#ifndef SCD_CALIBRATE_CORPUS_STAGE_H_
#define SCD_CALIBRATE_CORPUS_STAGE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "calibrate/config.h"
#include "calibrate/corpus.h"
#include "calibrate/model_pair.h"
#include "calibrate/run_context.h"
#include "common/model/loaded_pair.h"

namespace scd {

// Longest prefix: what the configuration says or the smaller of the models' limits.
std::int64_t MaxPrefixTokens(const CalibrateConfig& config, const ModelPair& pair);

// An empty corpus with the rules that this pair asks for.
Corpus MakeCorpus(const CalibrateConfig& config, const ModelPair& pair);

// Reads and checks what `source` names; of kSelfSample only the seed prompts.
absl::Status AddFileSource(const CorpusSource& source, Corpus* corpus);

// FAILED_PRECONDITION where fewer than two prefixes are left.
absl::StatusOr<Corpus> RunCorpusStage(const RunContext& context, const CalibrateConfig& config,
                                      const ModelPair& pair, const LoadedPair& loaded);

}  // namespace scd

#endif  // SCD_CALIBRATE_CORPUS_STAGE_H_
