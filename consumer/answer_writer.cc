#include "consumer/answer_writer.h"

#include <utility>

namespace scd {

AnswerWriter::AnswerWriter(const Tokenizer& tokenizer, std::vector<std::string> stops)
    : tokenizer_(tokenizer), detokenizer_(tokenizer, /*render_special=*/false), stops_(std::move(stops)) {}

bool AnswerWriter::Add(const SampledToken& token, v1::TokenEvent& event) {
  ++num_tokens_;
  StopMatcher::Piece piece = stops_.Add(detokenizer_.Add(token.id));
  stopped_ = piece.stopped;
  event.set_id(token.id);
  event.set_text(std::move(piece.text));
  event.set_logprob(token.logprob);
  for (const TokenLogprob& candidate : token.top) {
    v1::Logprob* top = event.add_top();
    top->set_id(candidate.id);
    top->set_text(tokenizer_.Decode({candidate.id}, /*render_special=*/true));
    top->set_logprob(candidate.logprob);
  }
  return !stopped_;
}

std::string AnswerWriter::Finish() {
  return stops_.Add(detokenizer_.Finish()).text + stops_.Finish();
}

}  // namespace scd
