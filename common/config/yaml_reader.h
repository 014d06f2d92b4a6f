// Typed reading of a YamlDocument into a configuration struct.
//
//   YamlReader reader(document);
//   YamlSection root = reader.root();
//   root.RequiredString("model", &config.model);
//   root.Int("threads", &config.threads, {.min = 0, .max = 256});
//   YamlSection store = root.Section("code_store");
//   store.Int("capacity_mib", &config.capacity_mib, {.min = 0, .max = 1 << 20, .unit = "MiB"});
//   return reader.Finish();
//
// A key that is absent leaves the field as it was: its default. Errors are kept, not returned: Finish gives
// the first of them, or refuses keys that nobody asked for, with line and the nearest known key. Each message
// reads
// "<file>:<line>: <section.key>: <what is wrong, and what is allowed>".
#ifndef SCD_COMMON_CONFIG_YAML_READER_H_
#define SCD_COMMON_CONFIG_YAML_READER_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/config/yaml_document.h"

namespace scd {

struct IntRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
  std::string_view unit = {};  // for messages: "tokens"
};

struct RealRange {
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
  std::string_view unit = {};
};

struct ListSize {
  std::size_t min = 0;
  std::size_t max = 4096;
};

class YamlReader;

// One section (map) of the document; empty where the file does not have it. A light handle into its reader.
class YamlSection {
 public:
  // Whether the key is there with a value.
  bool Has(std::string_view key) const;
  // Whether its value is this plain word, for keys that take a word or something else.
  bool IsWord(std::string_view key, std::string_view word);

  // Several calls give the same section.
  YamlSection Section(std::string_view key);
  // A list of sections, for example one for each of several models.
  std::vector<YamlSection> Sections(std::string_view key, ListSize size = {});

  void Int(std::string_view key, std::int64_t* value, IntRange range = {});
  void Int(std::string_view key, int* value, IntRange range = {});
  void Int(std::string_view key, std::optional<std::int64_t>* value, IntRange range = {});
  // Finite.
  void Real(std::string_view key, double* value, RealRange range = {});
  void Real(std::string_view key, std::optional<double>* value, RealRange range = {});
  void Bool(std::string_view key, bool* value);
  void String(std::string_view key, std::string* value);
  // There, and not empty.
  void RequiredString(std::string_view key, std::string* value);
  void Ints(std::string_view key, std::vector<std::int64_t>* value, IntRange range = {}, ListSize size = {});
  void Reals(std::string_view key, std::vector<double>* value, RealRange range = {}, ListSize size = {});
  void Strings(std::string_view key, std::vector<std::string>* value, ListSize size = {});
  // The word (for example "auto"), which clears `value`, or a list.
  void IntsOrWord(std::string_view key, std::string_view word,
                  std::optional<std::vector<std::int64_t>>* value, IntRange range = {}, ListSize size = {});

  // One of a few words: Choice("codec", &codec, {{"bf16", DType::kBF16}, {"f32", DType::kF32}}).
  template <typename E>
  void Choice(std::string_view key, E* value, const std::vector<std::pair<std::string_view, E>>& choices) {
    std::vector<std::string_view> words;
    for (const auto& choice : choices) words.push_back(choice.first);
    if (const std::optional<std::size_t> index = ChoiceIndex(key, words)) *value = choices[*index].second;
  }

  // For checks that go over several fields: an error at this key.
  void Fail(std::string_view key, std::string_view what);

  // "code_store"; empty for the root.
  const std::string& path() const;

 private:
  friend class YamlReader;
  struct State;
  YamlSection(YamlReader* reader, State* state) : reader_(reader), state_(state) {}

  const YamlNode* Lookup(std::string_view key);  // notes the key as known; null where it is absent
  const YamlNode* List(std::string_view key, ListSize size);
  std::string PathOf(std::string_view key) const;
  void FailAt(const YamlNode* node, const std::string& path, std::string_view what);
  std::optional<std::size_t> ChoiceIndex(std::string_view key, const std::vector<std::string_view>& words);
  std::optional<std::int64_t> ParseInt(const YamlNode& node, const std::string& path, const IntRange& range);
  std::optional<double> ParseReal(const YamlNode& node, const std::string& path, const RealRange& range);
  std::optional<std::string> ParseString(const YamlNode& node, const std::string& path);

  YamlReader* reader_;
  State* state_;
};

struct YamlSection::State {
  const YamlNode* node;  // null: absent
  std::string path;
  std::vector<std::string> known;
};

class YamlReader {
 public:
  // `document` outlives this.
  explicit YamlReader(const YamlDocument& document);
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;

  YamlSection root() { return {this, &sections_.front()}; }

  // INVALID_ARGUMENT. Call when everything was read.
  absl::Status Finish() const;

 private:
  friend class YamlSection;
  absl::Status UnknownKey() const;

  std::deque<YamlSection::State> sections_;  // handed out by address
  absl::Status value_error_;                 // the first value that is wrong
  absl::Status missing_error_;  // the first required key that is absent: an unknown key explains it better
};

}  // namespace scd

#endif  // SCD_COMMON_CONFIG_YAML_READER_H_
