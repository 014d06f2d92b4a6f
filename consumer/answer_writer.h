// Tokens of one answer -> events with text: whole characters only, and nothing that may still become a stop
// string.
#ifndef SCD_CONSUMER_ANSWER_WRITER_H_
#define SCD_CONSUMER_ANSWER_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/detokenizer.h"
#include "common/model/tokenizer.h"
#include "consumer/sampler.h"
#include "consumer/stop_matcher.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

class AnswerWriter {
 public:
  // `tokenizer` outlives this.
  AnswerWriter(const Tokenizer& tokenizer, std::vector<std::string> stops);

  // Fills `event`; returns false where a stop string is complete, after which nothing is added.
  bool Add(const SampledToken& token, v1::TokenEvent& event);
  // What was held back, for an answer that did not end with a stop string.
  std::string Finish();

  bool stopped() const { return stopped_; }
  std::int64_t num_tokens() const { return num_tokens_; }

 private:
  const Tokenizer& tokenizer_;
  Detokenizer detokenizer_;
  StopMatcher stops_;
  bool stopped_ = false;
  std::int64_t num_tokens_ = 0;
};

}  // namespace scd

#endif  // SCD_CONSUMER_ANSWER_WRITER_H_
