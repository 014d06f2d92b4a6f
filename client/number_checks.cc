#include "client/number_checks.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace scd {
namespace {

template <typename T>
CLI::Validator Finite(T min, T max, const std::string& name) {
  const auto check = [min, max](std::string& text) {
    T value{};
    if (CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= min && value <= max) {
      return std::string();
    }
    return absl::StrCat(text, " is no number from ", min, " to ", max);
  };
  return CLI::Validator(check, name.empty() ? absl::StrCat("in [", min, " - ", max, "]") : name);
}

bool HasEmptyElement(absl::string_view list) {
  absl::ConsumePrefix(&list, "[");
  absl::ConsumeSuffix(&list, "]");
  for (const absl::string_view element : absl::StrSplit(list, ',')) {
    if (absl::StripAsciiWhitespace(element).empty()) return true;
  }
  return false;
}

// Of an option, not a negative number.
bool IsName(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && !absl::ascii_isdigit(argument[1]);
}

}  // namespace

CLI::Validator FiniteNumber(double min, double max, const std::string& name) {
  return Finite(min, max, name);
}

CLI::Validator FiniteFloat(float min, float max, const std::string& name) {
  return Finite(min, max, name);
}

CLI::Validator WholeNumber() {
  const auto check = [](std::string& text) {
    std::uint64_t value = 0;
    if (absl::SimpleAtoi(text, &value)) return std::string();
    return absl::StrCat(text, " is no whole number from 0 to 2^64 - 1");
  };
  return CLI::Validator(check, "");
}

void CheckLists(const CLI::App& command, const std::vector<std::string>& arguments) {
  const CLI::Option* list = nullptr;
  const auto check = [&list](const std::string& value) {
    if (list == nullptr || !HasEmptyElement(value)) return;
    throw CLI::ValidationError(list->get_name(), absl::StrCat("\"", value, "\" has an empty element"));
  };
  for (const std::string& argument : arguments) {
    if (!IsName(argument)) {
      check(argument);
      continue;
    }
    const std::size_t equals = argument.find('=');
    list = command.get_option_no_throw(argument.substr(0, equals));
    if (list != nullptr && list->get_delimiter() != ',') list = nullptr;
    if (equals != std::string::npos) check(argument.substr(equals + 1));
  }
}

}  // namespace scd
