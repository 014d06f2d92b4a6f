// The prefixes that a calibration runs on, read from files and checked.
#ifndef SCD_CALIBRATE_CORPUS_H_
#define SCD_CALIBRATE_CORPUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "calibrate/config.h"
#include "common/io/digest.h"
#include "common/model/tokenizer.h"

namespace scd {

struct CorpusRules {
  const Tokenizer* tokenizer = nullptr;          // the consumer's, as when prompts are served
  std::int64_t vocab_size = 0;                   // ids both models have: [0, vocab_size)
  std::vector<std::int32_t> untranslatable_ids;  // sorted; prefixes with one of them are left out
  std::int64_t min_tokens = 1;                   // shorter prefixes are left out
  std::int64_t max_tokens = 512;                 // longer ones are cut
};

class Corpus {
 public:
  Corpus(CorpusRules rules, std::int64_t max_prefixes);

  // JSON Lines: each line one object with "text" (a string) or "ids" (token ids), anything else in it is
  // ignored. INVALID_ARGUMENT naming file and line: "corpus.jsonl:17: ids[3]: ...".
  absl::Status AddJsonl(const CorpusSource& source);
  // Plain text, cut at line ends into prefixes of about max_tokens.
  absl::Status AddText(const CorpusSource& source);
  // Ids that were made elsewhere; checked like those of a file. `origin` starts messages.
  absl::Status AddIds(const std::string& origin, std::vector<std::int32_t> ids);
  // Notes a source for the description: "90 of calibration.jsonl".
  void Describe(std::int64_t num_prefixes, const std::string& what);

  bool full() const { return static_cast<std::int64_t>(prefixes_.size()) >= max_prefixes_; }
  const std::vector<std::vector<std::int32_t>>& prefixes() const { return prefixes_; }
  const std::string& description() const { return description_; }
  std::int64_t num_too_short() const { return num_too_short_; }
  std::int64_t num_untranslatable() const { return num_untranslatable_; }
  // Of every prefix's ids, in order.
  Digest digest() const;

 private:
  absl::Status AddLine(const CorpusSource& source, const std::string& origin, absl::string_view line);
  absl::Status AddTextPrefix(const CorpusSource& source, const std::string& origin, absl::string_view text);

  const CorpusRules rules_;
  const std::int64_t max_prefixes_;
  std::vector<std::vector<std::int32_t>> prefixes_;
  std::string description_;
  std::int64_t num_too_short_ = 0;
  std::int64_t num_untranslatable_ = 0;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_CORPUS_H_
