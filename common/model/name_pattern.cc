#include "common/model/name_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace scd {
namespace {

constexpr std::size_t kMaxPatternBytes = 4096;
constexpr std::uint32_t kMaxSteps = 100'000;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

std::string ErrorText(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct NamePattern::Compiled {
  std::string pattern;
  std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>> code;
  std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>> context;
};

NamePattern::NamePattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
NamePattern::NamePattern(NamePattern&&) noexcept = default;
NamePattern& NamePattern::operator=(NamePattern&&) noexcept = default;
NamePattern::~NamePattern() = default;

absl::StatusOr<NamePattern> NamePattern::Create(const std::string& pattern) {
  const auto error = [&pattern](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pattern \"", absl::CHexEscape(pattern.substr(0, 200)), "\" ", what));
  };
  if (pattern.size() > kMaxPatternBytes)
    return error(absl::StrCat("is longer than ", kMaxPatternBytes, " bytes"));
  auto compiled = std::make_unique<Compiled>();
  compiled->pattern = pattern;
  int code = 0;
  PCRE2_SIZE offset = 0;
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                     PCRE2_ANCHORED | PCRE2_ENDANCHORED, &code, &offset, nullptr));
  if (compiled->code == nullptr)
    return error(absl::StrCat("is not valid at byte ", offset, ": ", ErrorText(code)));
  compiled->context.reset(pcre2_match_context_create(nullptr));
  if (compiled->context == nullptr) return error("needs more memory than there is");
  pcre2_set_match_limit(compiled->context.get(), kMaxSteps);
  pcre2_set_depth_limit(compiled->context.get(), kMaxSteps);
  return NamePattern(std::move(compiled));
}

absl::StatusOr<bool> NamePattern::Matches(absl::string_view name) const {
  const std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>> data(
      pcre2_match_data_create_from_pattern(compiled_->code.get(), nullptr));
  const int rc = data == nullptr
                     ? PCRE2_ERROR_NOMEMORY
                     : pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(name.data()),
                                   name.size(), 0, 0, data.get(), compiled_->context.get());
  if (rc >= 0) return true;
  if (rc == PCRE2_ERROR_NOMATCH) return false;
  return absl::InvalidArgumentError(absl::StrCat("the pattern \"",
                                                 absl::CHexEscape(compiled_->pattern.substr(0, 200)),
                                                 "\" cannot be matched: ", ErrorText(rc)));
}

}  // namespace scd
