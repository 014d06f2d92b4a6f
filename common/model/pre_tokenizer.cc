#include "common/model/pre_tokenizer.h"

#include <utility>

#include "absl/strings/str_replace.h"
#include "common/model/string_views.h"
#include "common/model/unicode.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

// A stretch of a piece, and whether it counts as a delimiter.
struct Stretch {
  std::size_t begin;
  std::size_t end;
  bool matched;
};

// Fills the gaps between matches, so that the stretches cover text.
std::vector<Stretch> Cover(std::string_view text, const std::vector<MatchRange>& matches) {
  std::vector<Stretch> out;
  std::size_t at = 0;
  for (const MatchRange& match : matches) {
    if (at < match.begin) out.push_back({at, match.begin, false});
    out.push_back({match.begin, match.end, true});
    at = match.end;
  }
  if (at < text.size()) out.push_back({at, text.size(), false});
  return out;
}

std::vector<MatchRange> FindLiteral(std::string_view text, std::string_view literal) {
  std::vector<MatchRange> out;
  for (std::size_t at = text.find(literal); at != std::string_view::npos;
       at = text.find(literal, at + literal.size())) {
    out.push_back({at, at + literal.size()});
  }
  return out;
}

std::vector<MatchRange> FindNumeric(std::string_view text) {
  std::vector<MatchRange> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = Utf8Length(text[at]);
    if (IsNumeric(DecodeUtf8(text.substr(at)))) out.push_back({at, at + length});
    at += length;
  }
  return out;
}

// Joins stretches as `behavior` says and appends the pieces.
void Cut(std::string_view text, const std::vector<Stretch>& stretches, SplitBehavior behavior,
         std::vector<std::string>* pieces) {
  std::size_t begin = 0, end = 0;  // the piece under way
  bool last_matched = false;
  const auto flush = [&] {
    if (end > begin) pieces->emplace_back(text.substr(begin, end - begin));
    begin = end;
  };
  for (const Stretch& stretch : stretches) {
    bool joins = false;  // the piece under way
    switch (behavior) {
      case SplitBehavior::kRemoved:
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kMergedWithPrevious:
        joins = stretch.matched && !last_matched;
        break;
      case SplitBehavior::kMergedWithNext:
        joins = last_matched && !stretch.matched;
        break;
      case SplitBehavior::kContiguous:
        joins = stretch.matched == last_matched;
        break;
    }
    if (!joins) flush();
    if (behavior == SplitBehavior::kRemoved && stretch.matched) {
      begin = end = stretch.end;
    } else {
      end = stretch.end;
    }
    last_matched = stretch.matched;
  }
  flush();
}

absl::Status Split(const SplitStep& step, std::string_view text, RegexScratch* scratch,
                   std::vector<std::string>* pieces) {
  std::vector<MatchRange> matches;
  if (step.regex != nullptr) {
    SCD_RETURN_IF_ERROR(step.regex->FindAll(text, scratch, &matches));
  } else {
    matches = FindLiteral(text, step.literal);
  }
  std::vector<Stretch> stretches = Cover(text, matches);
  if (step.invert) {
    for (Stretch& stretch : stretches) stretch.matched = !stretch.matched;
  }
  Cut(text, stretches, step.behavior, pieces);
  return absl::OkStatus();
}

void Metaspace(const MetaspaceStep& step, std::string_view text, bool at_start,
               std::vector<std::string>* pieces) {
  std::string spelled = absl::StrReplaceAll(ToAbsl(text), {{" ", step.replacement}});
  const bool prepend = step.prepend == MetaspaceStep::Prepend::kAlways ||
                       (step.prepend == MetaspaceStep::Prepend::kFirst && at_start);
  if (prepend && !std::string_view(spelled).starts_with(step.replacement))
    spelled.insert(0, step.replacement);
  if (!step.split) {
    pieces->push_back(std::move(spelled));
    return;
  }
  Cut(spelled, Cover(spelled, FindLiteral(spelled, step.replacement)), SplitBehavior::kMergedWithNext,
      pieces);
}

}  // namespace

absl::StatusOr<std::string> Normalizer::Apply(std::string_view text) const {
  std::string out(text);
  for (const NormalizerStep& step : steps_) {
    if (std::holds_alternative<NfcNormalizer>(step)) {
      SCD_ASSIGN_OR_RETURN(out, ToNfc(out));
    } else if (const auto* prepend = std::get_if<PrependNormalizer>(&step)) {
      if (!out.empty()) out.insert(0, prepend->text);
    } else if (const auto* replace = std::get_if<ReplaceNormalizer>(&step)) {
      absl::StrReplaceAll({{replace->from, replace->to}}, &out);
    }
  }
  return out;
}

void Normalizer::AddTo(DigestBuilder* digest) const {
  digest->AddInt(static_cast<std::int64_t>(steps_.size()));
  for (const NormalizerStep& step : steps_) {
    std::visit(Overloaded{[&](const NfcNormalizer&) { digest->AddString("nfc"); },
                          [&](const PrependNormalizer& s) { digest->AddString("prepend").AddString(s.text); },
                          [&](const ReplaceNormalizer& s) {
                            digest->AddString("replace").AddString(s.from).AddString(s.to);
                          }},
               step);
  }
}

absl::StatusOr<std::vector<std::string>> PreTokenizer::Apply(std::string text, bool at_start) const {
  std::vector<std::string> pieces;
  if (text.empty()) return pieces;
  pieces.push_back(std::move(text));
  RegexScratch scratch;
  for (const PreTokenizerStep& step : steps_) {
    std::vector<std::string> next;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      std::string& piece = pieces[i];
      SCD_RETURN_IF_ERROR(std::visit(
          Overloaded{[&](const SplitStep& s) { return Split(s, piece, &scratch, &next); },
                     [&](const DigitsStep& s) {
                       Cut(piece, Cover(piece, FindNumeric(piece)),
                           s.individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, &next);
                       return absl::OkStatus();
                     },
                     [&](const PrefixSpaceStep&) {
                       next.push_back(piece[0] == ' ' ? std::move(piece) : " " + piece);
                       return absl::OkStatus();
                     },
                     [&](const MetaspaceStep& s) {
                       Metaspace(s, piece, at_start && i == 0, &next);
                       return absl::OkStatus();
                     }},
          step));
    }
    pieces = std::move(next);
  }
  return pieces;
}

void PreTokenizer::AddTo(DigestBuilder* digest) const {
  digest->AddInt(static_cast<std::int64_t>(steps_.size()));
  for (const PreTokenizerStep& step : steps_) {
    std::visit(Overloaded{[&](const SplitStep& s) {
                            digest->AddString("split")
                                .AddInt(s.regex != nullptr)
                                .AddString(s.regex != nullptr ? s.regex->pattern() : s.literal)
                                .AddInt(static_cast<std::int64_t>(s.behavior))
                                .AddInt(s.invert);
                          },
                          [&](const DigitsStep& s) { digest->AddString("digits").AddInt(s.individual); },
                          [&](const PrefixSpaceStep&) { digest->AddString("prefix_space"); },
                          [&](const MetaspaceStep& s) {
                            digest->AddString("metaspace")
                                .AddString(s.replacement)
                                .AddInt(static_cast<std::int64_t>(s.prepend))
                                .AddInt(s.split);
                          }},
               step);
  }
}

absl::StatusOr<SplitStep> IsolateMatches(std::string_view pattern) {
  SCD_ASSIGN_OR_RETURN(auto regex, Regex::Create(pattern));
  return SplitStep{std::shared_ptr<const Regex>(std::move(regex)), "", SplitBehavior::kIsolated, false};
}

}  // namespace scd
