#include "common/model/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/model/string_views.h"
#include "common/model/unicode.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kMaxPatternBytes = 16384;
constexpr std::uint32_t kMatchLimit = 10'000'000;
constexpr std::uint32_t kDepthLimit = 100'000;
constexpr std::uint32_t kHeapLimitKib = 65536;
constexpr std::size_t kJitStackMinBytes = 32 << 10;
constexpr std::size_t kJitStackMaxBytes = 8 << 20;

// Members of character classes. PCRE2's own \s holds U+180E, which is no white space; and \S cannot be
// written as a negation inside a class.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNotSpaces =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";

// Rewrites a pattern for PCRE2, or says why it cannot be.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        SCD_RETURN_IF_ERROR(Escape());
      } else if (in_class_) {
        SCD_RETURN_IF_ERROR(InClass(c));
      } else {
        SCD_RETURN_IF_ERROR(OutsideClass(c));
      }
    }
    return std::move(out_);
  }

 private:
  absl::Status Refuse(std::string_view what) const {
    return absl::UnimplementedError(absl::StrCat("the regular expression \"",
                                                 absl::CHexEscape(ToAbsl(pattern_)), "\" uses ", ToAbsl(what),
                                                 ", which is not supported"));
  }
  bool Follows(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  void Copy(std::size_t count) {
    out_.append(pattern_.substr(at_, count));
    at_ += count;
  }

  absl::Status Escape() {
    if (at_ + 1 == pattern_.size()) {
      Copy(1);  // PCRE2 reports it
      return absl::OkStatus();
    }
    class_is_empty_ = false;
    const char c = pattern_[at_ + 1];
    constexpr std::string_view kSame = "dDpPtnrfvaex";
    switch (c) {
      case 's':
        return Replace(in_class_ ? std::string(kSpaces) : absl::StrCat("[", ToAbsl(kSpaces), "]"));
      case 'S':
        return Replace(in_class_ ? std::string(kNotSpaces) : absl::StrCat("[^", ToAbsl(kSpaces), "]"));
      default:
        break;
    }
    const bool letter_or_digit = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter_or_digit && kSame.find(c) == std::string_view::npos) {
      return Refuse(absl::StrCat("\\", std::string(1, c)));
    }
    // \v is white space down the page in PCRE2 and the vertical tab in Oniguruma.
    if (c == 'v') return Replace(in_class_ ? "\\x{B}" : "[\\x{B}]");
    Copy(2);
    if ((c == 'p' || c == 'P' || c == 'x') && Follows("{")) {
      const std::size_t close = pattern_.find('}', at_);
      Copy(close == std::string_view::npos ? pattern_.size() - at_ : close + 1 - at_);
    }
    return absl::OkStatus();
  }

  absl::Status Replace(std::string_view with) {
    out_.append(with);
    at_ += 2;
    return absl::OkStatus();
  }

  absl::Status InClass(char c) {
    if (c == '[') return Refuse("a class inside a class");
    if (Follows("&&")) return Refuse("an intersection of classes");
    if (c == ']' && !class_is_empty_) in_class_ = false;
    class_is_empty_ = false;
    Copy(1);
    return absl::OkStatus();
  }

  absl::Status OutsideClass(char c) {
    if (c == '[') {
      in_class_ = class_is_empty_ = true;
      Copy(Follows("[^") ? 2 : 1);
      return absl::OkStatus();
    }
    // Only (?i) and (?-i) mean the same in both; (?m) and others do not.
    if (Follows("(?")) {
      constexpr std::array<std::string_view, 8> kGroups = {"(?:",  "(?=",  "(?!",  "(?>",
                                                           "(?<=", "(?<!", "(?i:", "(?i)"};
      for (const auto group : kGroups) {
        if (Follows(group)) {
          Copy(group.size());
          return absl::OkStatus();
        }
      }
      return Refuse(absl::StrCat("the group ", ToAbsl(pattern_.substr(at_, 4))));
    }
    if (Follows("(*")) return Refuse("(*");
    // Oniguruma repeats {n,m} once more where PCRE2 would make it possessive.
    if (Follows("}+")) return Refuse("}+");
    Copy(1);
    return absl::OkStatus();
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  bool class_is_empty_ = false;  // directly after [ or [^, where ] is a member
  std::string out_;
};

struct CodeDeleter {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
};
struct MatchDataDeleter {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};
struct ContextDeleter {
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
struct JitStackDeleter {
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};

std::string ErrorText(int code) {
  std::array<PCRE2_UCHAR, 256> text;
  if (pcre2_get_error_message(code, text.data(), text.size()) < 0) return absl::StrCat("error ", code);
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct Regex::Compiled {
  std::unique_ptr<pcre2_code, CodeDeleter> code;
};

struct RegexScratch::State {
  // The stack outlives the context that refers to it.
  std::unique_ptr<pcre2_jit_stack, JitStackDeleter> stack;
  std::unique_ptr<pcre2_match_data, MatchDataDeleter> data;
  std::unique_ptr<pcre2_match_context, ContextDeleter> context;
};

RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {
  state_->stack.reset(pcre2_jit_stack_create(kJitStackMinBytes, kJitStackMaxBytes, nullptr));
  state_->data.reset(pcre2_match_data_create(1, nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  if (state_->context == nullptr) return;
  pcre2_set_match_limit(state_->context.get(), kMatchLimit);
  pcre2_set_depth_limit(state_->context.get(), kDepthLimit);
  pcre2_set_heap_limit(state_->context.get(), kHeapLimitKib);
  if (state_->stack != nullptr) pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}
RegexScratch::~RegexScratch() = default;

Regex::Regex(std::string pattern, std::unique_ptr<Compiled> compiled)
    : pattern_(std::move(pattern)), compiled_(std::move(compiled)) {}
Regex::~Regex() = default;

absl::StatusOr<std::unique_ptr<Regex>> Regex::Create(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a regular expression of ", pattern.size(),
                                                   " bytes, more than the ", kMaxPatternBytes, " allowed"));
  }
  SCD_RETURN_IF_ERROR(CheckUtf8(pattern));
  SCD_ASSIGN_OR_RETURN(const std::string translated, Translator(pattern).Run());
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_unique<Compiled>();
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                     &error, &offset, nullptr));
  if (compiled->code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the regular expression \"", absl::CHexEscape(ToAbsl(pattern)), "\" is wrong: ", ErrorText(error)));
  }
  // Without a JIT for this machine matching is slower and otherwise the same.
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  return std::unique_ptr<Regex>(new Regex(std::string(pattern), std::move(compiled)));
}

absl::Status Regex::FindAll(std::string_view text, RegexScratch* scratch,
                            std::vector<MatchRange>* matches) const {
  pcre2_match_data* data = scratch->state_->data.get();
  pcre2_match_context* context = scratch->state_->context.get();
  if (data == nullptr || context == nullptr) return absl::ResourceExhaustedError("no memory for matching");
  std::size_t at = 0;
  while (at < text.size()) {
    const int result = pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                   text.size(), at, PCRE2_NO_UTF_CHECK, data, context);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      return absl::ResourceExhaustedError(absl::StrCat("the regular expression \"",
                                                       absl::CHexEscape(pattern_),
                                                       "\" gave up on this text: ", ErrorText(result)));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data);
    if (range[1] > range[0]) {
      matches->push_back({range[0], range[1]});
      at = range[1];
    } else {
      at = range[1] + (range[1] < text.size() ? Utf8Length(text[range[1]]) : 1);
    }
  }
  return absl::OkStatus();
}

}  // namespace scd
