#include "common/config/yaml_reader.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/nearest_word.h"

namespace scd {
namespace {

absl::string_view A(std::string_view text) {
  return {text.data(), text.size()};
}

std::string Unit(std::string_view unit) {
  return unit.empty() ? "" : absl::StrCat(" ", A(unit));
}

// "a list", "\"text\"": what stands in the file, for messages.
std::string Shown(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a section";
    case YamlNode::Kind::kScalar:
      break;
  }
  constexpr std::size_t kShown = 60;
  return absl::StrCat("\"", node.scalar.substr(0, kShown), node.scalar.size() > kShown ? "..." : "", "\"");
}

std::string Allowed(const IntRange& range) {
  const bool has_min = range.min != std::numeric_limits<std::int64_t>::min();
  const bool has_max = range.max != std::numeric_limits<std::int64_t>::max();
  if (has_min && has_max) return absl::StrCat(range.min, " to ", range.max, Unit(range.unit));
  if (has_min) return absl::StrCat("at least ", range.min, Unit(range.unit));
  if (has_max) return absl::StrCat("at most ", range.max, Unit(range.unit));
  return absl::StrCat("any", Unit(range.unit));
}

std::string Allowed(const RealRange& range) {
  const bool has_min = range.min != std::numeric_limits<double>::lowest();
  const bool has_max = range.max != std::numeric_limits<double>::max();
  if (has_min && has_max) return absl::StrCat(range.min, " to ", range.max, Unit(range.unit));
  if (has_min) return absl::StrCat("at least ", range.min, Unit(range.unit));
  if (has_max) return absl::StrCat("at most ", range.max, Unit(range.unit));
  return absl::StrCat("any", Unit(range.unit));
}

}  // namespace

bool YamlSection::Has(std::string_view key) const {
  const YamlNode* node = state_->node == nullptr ? nullptr : state_->node->Find(key);
  return node != nullptr && node->kind != YamlNode::Kind::kNull;
}

bool YamlSection::IsWord(std::string_view key, std::string_view word) {
  const YamlNode* node = Lookup(key);
  return node != nullptr && node->kind == YamlNode::Kind::kScalar && !node->quoted && node->scalar == word;
}

const std::string& YamlSection::path() const {
  return state_->path;
}

std::string YamlSection::PathOf(std::string_view key) const {
  return state_->path.empty() ? std::string(key) : absl::StrCat(state_->path, ".", A(key));
}

const YamlNode* YamlSection::Lookup(std::string_view key) {
  state_->known.emplace_back(key);
  return state_->node == nullptr ? nullptr : state_->node->Find(key);
}

void YamlSection::FailAt(const YamlNode* node, const std::string& path, std::string_view what) {
  if (!reader_->value_error_.ok()) return;
  reader_->value_error_ =
      absl::InvalidArgumentError(absl::StrCat(node->Location(), ": ", path, ": ", A(what)));
}

void YamlSection::Fail(std::string_view key, std::string_view what) {
  const YamlNode* node = state_->node == nullptr ? nullptr : state_->node->Find(key);
  if (node == nullptr) node = state_->node;
  if (node == nullptr) node = reader_->sections_.front().node;
  FailAt(node, PathOf(key), what);
}

YamlSection YamlSection::Section(std::string_view key) {
  const YamlNode* node = Lookup(key);
  if (node != nullptr && node->kind != YamlNode::Kind::kMap) {
    // A section whose keys are all commented out is an empty one.
    if (node->kind != YamlNode::Kind::kNull) {
      FailAt(node, PathOf(key), absl::StrCat("expected a section (indented keys), got ", Shown(*node)));
    }
    node = nullptr;
  }
  // Several parts of a program may read one section: its known keys are those of all of them.
  const std::string path = PathOf(key);
  const auto opened = std::find_if(reader_->sections_.begin(), reader_->sections_.end(),
                                   [&path](const State& section) { return section.path == path; });
  if (opened != reader_->sections_.end()) return {reader_, &*opened};
  reader_->sections_.push_back(State{node, path, {}});
  return {reader_, &reader_->sections_.back()};
}

const YamlNode* YamlSection::List(std::string_view key, ListSize size) {
  const YamlNode* node = Lookup(key);
  if (node == nullptr) return nullptr;
  if (node->kind != YamlNode::Kind::kList) {
    FailAt(node, PathOf(key), absl::StrCat("expected a list, got ", Shown(*node)));
    return nullptr;
  }
  if (node->items.size() < size.min || node->items.size() > size.max) {
    FailAt(node, PathOf(key),
           absl::StrCat("has ", node->items.size(), " entries; allowed: ", size.min, " to ", size.max));
    return nullptr;
  }
  return node;
}

std::vector<YamlSection> YamlSection::Sections(std::string_view key, ListSize size) {
  std::vector<YamlSection> sections;
  const YamlNode* list = List(key, size);
  if (list == nullptr) return sections;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const YamlNode& item = list->items[i];
    const std::string path = absl::StrCat(PathOf(key), "[", i, "]");
    if (item.kind != YamlNode::Kind::kMap) {
      FailAt(&item, path, absl::StrCat("expected a section (indented keys), got ", Shown(item)));
      return {};
    }
    reader_->sections_.push_back(State{&item, path, {}});
    sections.push_back({reader_, &reader_->sections_.back()});
  }
  return sections;
}

std::optional<std::int64_t> YamlSection::ParseInt(const YamlNode& node, const std::string& path,
                                                  const IntRange& range) {
  const std::string_view digits =
      node.scalar.starts_with('-') ? std::string_view(node.scalar).substr(1) : node.scalar;
  const bool written_as_int =
      node.kind == YamlNode::Kind::kScalar && !node.quoted && !digits.empty() &&
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!written_as_int) {
    FailAt(&node, path,
           absl::StrCat("expected a whole number, got ", Shown(node), "; allowed: ", Allowed(range)));
    return std::nullopt;
  }
  std::int64_t value = 0;
  if (!absl::SimpleAtoi(node.scalar, &value) || value < range.min || value > range.max) {
    FailAt(&node, path,
           absl::StrCat(node.scalar.substr(0, 60), " is out of range; allowed: ", Allowed(range)));
    return std::nullopt;
  }
  return value;
}

void YamlSection::Int(std::string_view key, std::int64_t* value, IntRange range) {
  if (const YamlNode* node = Lookup(key)) {
    if (const auto parsed = ParseInt(*node, PathOf(key), range)) *value = *parsed;
  }
}

void YamlSection::Int(std::string_view key, int* value, IntRange range) {
  range.min = std::max<std::int64_t>(range.min, std::numeric_limits<int>::min());
  range.max = std::min<std::int64_t>(range.max, std::numeric_limits<int>::max());
  std::int64_t wide = *value;
  Int(key, &wide, range);
  *value = static_cast<int>(wide);
}

void YamlSection::Int(std::string_view key, std::optional<std::int64_t>* value, IntRange range) {
  if (const YamlNode* node = Lookup(key)) {
    if (const auto parsed = ParseInt(*node, PathOf(key), range)) *value = *parsed;
  }
}

void YamlSection::Real(std::string_view key, std::optional<double>* value, RealRange range) {
  double parsed = 0;
  const bool given = Has(key);
  Real(key, &parsed, range);
  if (given) *value = parsed;
}

std::optional<double> YamlSection::ParseReal(const YamlNode& node, const std::string& path,
                                             const RealRange& range) {
  double parsed = 0;
  const bool is_number = node.kind == YamlNode::Kind::kScalar && !node.quoted &&
                         absl::SimpleAtod(node.scalar, &parsed) && std::isfinite(parsed);
  if (!is_number) {
    FailAt(&node, path, absl::StrCat("expected a number, got ", Shown(node), "; allowed: ", Allowed(range)));
    return std::nullopt;
  }
  if (parsed < range.min || parsed > range.max) {
    FailAt(&node, path, absl::StrCat(node.scalar, " is out of range; allowed: ", Allowed(range)));
    return std::nullopt;
  }
  return parsed;
}

void YamlSection::Real(std::string_view key, double* value, RealRange range) {
  const YamlNode* node = Lookup(key);
  if (node == nullptr) return;
  if (const std::optional<double> parsed = ParseReal(*node, PathOf(key), range)) *value = *parsed;
}

void YamlSection::Bool(std::string_view key, bool* value) {
  const YamlNode* node = Lookup(key);
  if (node == nullptr) return;
  const bool plain = node->kind == YamlNode::Kind::kScalar && !node->quoted;
  if (plain && node->scalar == "true") {
    *value = true;
  } else if (plain && node->scalar == "false") {
    *value = false;
  } else {
    FailAt(node, PathOf(key), absl::StrCat("expected true or false, got ", Shown(*node)));
  }
}

std::optional<std::string> YamlSection::ParseString(const YamlNode& node, const std::string& path) {
  if (node.kind == YamlNode::Kind::kScalar) return node.scalar;
  FailAt(&node, path, absl::StrCat("expected text, got ", Shown(node)));
  return std::nullopt;
}

void YamlSection::String(std::string_view key, std::string* value) {
  if (const YamlNode* node = Lookup(key)) {
    if (auto parsed = ParseString(*node, PathOf(key))) *value = *std::move(parsed);
  }
}

void YamlSection::RequiredString(std::string_view key, std::string* value) {
  const YamlNode* node = Lookup(key);
  if (node == nullptr) {
    const YamlNode* where = state_->node != nullptr ? state_->node : reader_->sections_.front().node;
    if (reader_->missing_error_.ok()) {
      reader_->missing_error_ =
          absl::InvalidArgumentError(absl::StrCat(where->Location(), ": ", PathOf(key), ": is missing"));
    }
    return;
  }
  auto parsed = ParseString(*node, PathOf(key));
  if (!parsed.has_value()) return;
  if (parsed->empty()) FailAt(node, PathOf(key), "is empty");
  *value = *std::move(parsed);
}

void YamlSection::Ints(std::string_view key, std::vector<std::int64_t>* value, IntRange range,
                       ListSize size) {
  const YamlNode* list = List(key, size);
  if (list == nullptr) return;
  std::vector<std::int64_t> read;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const auto parsed = ParseInt(list->items[i], absl::StrCat(PathOf(key), "[", i, "]"), range);
    if (!parsed.has_value()) return;
    read.push_back(*parsed);
  }
  *value = std::move(read);
}

void YamlSection::Reals(std::string_view key, std::vector<double>* value, RealRange range, ListSize size) {
  const YamlNode* list = List(key, size);
  if (list == nullptr) return;
  std::vector<double> read;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const auto parsed = ParseReal(list->items[i], absl::StrCat(PathOf(key), "[", i, "]"), range);
    if (!parsed.has_value()) return;
    read.push_back(*parsed);
  }
  *value = std::move(read);
}

void YamlSection::Strings(std::string_view key, std::vector<std::string>* value, ListSize size) {
  const YamlNode* list = List(key, size);
  if (list == nullptr) return;
  std::vector<std::string> read;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    auto parsed = ParseString(list->items[i], absl::StrCat(PathOf(key), "[", i, "]"));
    if (!parsed.has_value()) return;
    read.push_back(*std::move(parsed));
  }
  *value = std::move(read);
}

void YamlSection::IntsOrWord(std::string_view key, std::string_view word,
                             std::optional<std::vector<std::int64_t>>* value, IntRange range, ListSize size) {
  const YamlNode* node = state_->node == nullptr ? nullptr : state_->node->Find(key);
  if (node != nullptr && node->kind != YamlNode::Kind::kList) {
    Lookup(key);
    if (node->kind == YamlNode::Kind::kScalar && node->scalar == word) {
      value->reset();
    } else {
      FailAt(node, PathOf(key), absl::StrCat("expected ", A(word), " or a list, got ", Shown(*node)));
    }
    return;
  }
  std::vector<std::int64_t> read = value->value_or(std::vector<std::int64_t>());
  Ints(key, &read, range, size);
  if (node != nullptr) *value = std::move(read);
}

std::optional<std::size_t> YamlSection::ChoiceIndex(std::string_view key,
                                                    const std::vector<std::string_view>& words) {
  const YamlNode* node = Lookup(key);
  if (node == nullptr) return std::nullopt;
  if (node->kind == YamlNode::Kind::kScalar) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (node->scalar == words[i]) return i;
    }
  }
  std::vector<absl::string_view> shown;
  for (const std::string_view word : words) shown.push_back(A(word));
  FailAt(node, PathOf(key), absl::StrCat(Shown(*node), " is not one of: ", absl::StrJoin(shown, ", ")));
  return std::nullopt;
}

YamlReader::YamlReader(const YamlDocument& document) {
  sections_.push_back(YamlSection::State{&document.root(), "", {}});
}

absl::Status YamlReader::UnknownKey() const {
  for (const YamlSection::State& section : sections_) {
    if (section.node == nullptr) continue;
    for (const auto& [key, node] : section.node->entries) {
      const std::vector<std::string>& known = section.known;
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;

      const std::string prefix = section.path.empty() ? "" : absl::StrCat(section.path, ".");
      const std::string shown = key.substr(0, 80);
      std::string message = absl::StrCat(node.Location(), ": ", prefix, shown, ": is not a known key");
      if (const std::optional<std::string> nearest = NearestWord(shown, known)) {
        absl::StrAppend(&message, "; did you mean ", prefix, *nearest, "?");
      } else {
        const auto elsewhere =
            std::find_if(sections_.begin(), sections_.end(), [&](const YamlSection::State& other) {
              return std::find(other.known.begin(), other.known.end(), key) != other.known.end();
            });
        if (elsewhere != sections_.end()) {
          absl::StrAppend(&message, "; did you mean ", elsewhere->path, elsewhere->path.empty() ? "" : ".",
                          key, "?");
        } else {
          absl::StrAppend(&message, "; known here: ", absl::StrJoin(known, ", "));
        }
      }
      return absl::InvalidArgumentError(message);
    }
  }
  return absl::OkStatus();
}

absl::Status YamlReader::Finish() const {
  if (!value_error_.ok()) return value_error_;
  if (absl::Status unknown = UnknownKey(); !unknown.ok()) return unknown;
  return missing_error_;
}

}  // namespace scd
