#include "calibrate/model_pair.h"

#include <algorithm>

#include "common/model/tokenizer.h"
#include "kernels/status_macros.h"

namespace scd {

std::int64_t ModelPair::vocab_size() const {
  return std::min(producer.config.vocab_size, consumer.config.vocab_size);
}

Digest ModelPair::digest() const {
  return DigestBuilder("scd.calibrate.pair.v1")
      .AddDigest(producer.digest)
      .AddDigest(producer.tokenizer->digest())
      .AddDigest(consumer.digest)
      .AddDigest(consumer.tokenizer->digest())
      .Finish();
}

absl::StatusOr<ModelPair> OpenModelPair(const CalibrateConfig& config) {
  ModelPair pair;
  SCD_ASSIGN_OR_RETURN(pair.producer, OpenModel(config.producer));
  SCD_ASSIGN_OR_RETURN(pair.consumer, OpenModel(config.consumer));
  SCD_RETURN_IF_ERROR(pair.producer.config.CheckTranslatable(pair.consumer.config));
  SCD_ASSIGN_OR_RETURN(pair.untranslatable_ids,
                       UntranslatableIds(*pair.producer.tokenizer, *pair.consumer.tokenizer));
  return pair;
}

}  // namespace scd
