// The steps before BPE: normalisers rewrite the text, pre-tokenizers cut it into the pieces that never merge
// with each other. Both are short lists of the rules that tokenizer.json names.
#ifndef SCD_COMMON_MODEL_PRE_TOKENIZER_H_
#define SCD_COMMON_MODEL_PRE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/digest.h"
#include "common/model/regex.h"

namespace scd {

// The word patterns of well-known vocabularies.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";

struct NfcNormalizer {};
struct PrependNormalizer {
  std::string text;  // put before every text that is not empty
};
struct ReplaceNormalizer {
  std::string from;  // not empty
  std::string to;
};
using NormalizerStep = std::variant<NfcNormalizer, PrependNormalizer, ReplaceNormalizer>;

// In order. Immutable and thread-safe.
class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  absl::StatusOr<std::string> Apply(std::string_view text) const;
  bool empty() const { return steps_.empty(); }
  void AddTo(DigestBuilder* digest) const;

 private:
  std::vector<NormalizerStep> steps_;
};

// What becomes of a stretch that a Split matches.
enum class SplitBehavior : std::uint8_t {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
};

struct SplitStep {
  std::shared_ptr<const Regex> regex;  // null: `literal` is looked for instead
  std::string literal;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what does not match counts as matched
};
struct DigitsStep {
  bool individual = false;  // every \p{N} character on its own, else runs of them
};
struct PrefixSpaceStep {};  // a space before every piece that does not start with one
// SentencePiece's spelling: spaces become `replacement`, which may also be put in front.
struct MetaspaceStep {
  enum class Prepend : std::uint8_t { kAlways, kFirst, kNever };
  std::string replacement;
  Prepend prepend = Prepend::kAlways;
  bool split = true;  // cut before each replacement
};
using PreTokenizerStep = std::variant<SplitStep, DigitsStep, PrefixSpaceStep, MetaspaceStep>;

// In order. Immutable and thread-safe.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  // `at_start`: text begins where the whole prompt does.
  absl::StatusOr<std::vector<std::string>> Apply(std::string text, bool at_start) const;
  void AddTo(DigestBuilder* digest) const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

// A SplitStep that isolates the matches of a pattern.
absl::StatusOr<SplitStep> IsolateMatches(std::string_view pattern);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_PRE_TOKENIZER_H_
