// A YAML configuration file as a tree that knows where each value stands, with `--set` overrides merged in.
//
// Strict, because the file is outside input and a misread configuration is worse than none: at most 256 KiB
// and 16 levels, one document, valid UTF-8, no tabs or control characters, no anchors, aliases or tags, no
// key twice in one section. Every error starts with "<file>:<line>: ".
#ifndef SCD_COMMON_CONFIG_YAML_DOCUMENT_H_
#define SCD_COMMON_CONFIG_YAML_DOCUMENT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace scd {

inline constexpr std::size_t kMaxYamlBytes = std::size_t{256} << 10;
inline constexpr int kMaxYamlDepth = 16;

struct YamlNode {
  enum class Kind : unsigned char { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string scalar;           // kScalar: its text, unescaped
  bool quoted = false;          // kScalar: written in quotes, so a string whatever it spells
  std::vector<YamlNode> items;  // kList
  std::vector<std::pair<std::string, YamlNode>> entries;  // kMap, in the file's order
  std::shared_ptr<const std::string> origin;              // the file, or the text of the override
  int line = 0;                                           // from 1; 0: an override, which has no lines

  const YamlNode* Find(std::string_view key) const;  // null where it is not a map or has no such key
  std::string Location() const;                      // "producer.yaml:12" or "--set listen=x"
};

// The root is a map (an empty file is an empty map).
class YamlDocument {
 public:
  // Each override is "a.b.c=value", the value in YAML ("x=[1, 2]", "x=text"); sections on the way are made
  // where they are missing, later overrides win. NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT.
  static absl::StatusOr<YamlDocument> Load(const std::string& path,
                                           absl::Span<const std::string> overrides = {});
  // The same for text in memory; `origin` stands in messages where a file's path would.
  static absl::StatusOr<YamlDocument> Parse(std::string_view text, const std::string& origin,
                                            absl::Span<const std::string> overrides = {});

  const YamlNode& root() const { return root_; }

 private:
  explicit YamlDocument(YamlNode root) : root_(std::move(root)) {}
  YamlNode root_;
};

}  // namespace scd

#endif  // SCD_COMMON_CONFIG_YAML_DOCUMENT_H_
