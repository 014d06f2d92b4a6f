#include "common/config/yaml_document.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/io/mapped_file.h"
#include "kernels/status_macros.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace scd {
namespace {

std::string At(const std::string& origin, int line) {
  return line > 0 ? absl::StrCat(origin, ":", line) : origin;
}

absl::Status ErrorAt(const std::string& origin, int line, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(At(origin, line), ": ", absl::string_view(what.data(), what.size())));
}

// Length of the well-formed UTF-8 character at the start of `text`; 0 where there is none.
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const auto continuation = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continuation(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!continuation(1) || !continuation(2)) return 0;
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) > 0x9F;
    return overlong || surrogate ? 0 : 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!continuation(1) || !continuation(2) || !continuation(3)) return 0;
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool too_large = first == 0xF4 && byte(1) > 0x8F;
    return overlong || too_large ? 0 : 4;
  }
  return 0;
}

absl::Status CheckText(std::string_view text, const std::string& origin, int first_line) {
  if (text.size() > kMaxYamlBytes) {
    return ErrorAt(origin, 0,
                   absl::StrCat("is over the limit of ", kMaxYamlBytes, " bytes for a configuration"));
  }
  int line = first_line;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = Utf8Length(text.substr(i));
    if (length == 0) return ErrorAt(origin, line, "is not valid UTF-8");
    if (byte == '\t') return ErrorAt(origin, line, "has a tab character: use spaces");
    if ((byte < 0x20 && byte != '\n' && byte != '\r') || byte == 0x7F) {
      return ErrorAt(origin, line, absl::StrCat("has the control character ", static_cast<int>(byte)));
    }
    if (byte == '\n' && line > 0) ++line;
    i += length;
  }
  return absl::OkStatus();
}

// What the tree builder does not accept; leaves the parser as an exception, since that has no other way out.
class Refused : public std::exception {
 public:
  Refused(int line, std::string what) : line_(line), what_(std::move(what)) {}
  int line() const { return line_; }
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  int line_;
  std::string what_;
};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::shared_ptr<const std::string> origin, bool has_lines)
      : origin_(std::move(origin)), has_lines_(has_lines) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (num_documents_++ > 0) Refuse(mark, "a second document starts here: a configuration is one document");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Check(mark, "", anchor);
    if (AwaitsKey()) Refuse(mark, "a key is missing");
    YamlNode node = Make(mark, YamlNode::Kind::kNull);
    // The mark of nothing is where the next thing stands.
    if (!stack_.empty() && stack_.back().key.has_value()) node.line = stack_.back().key_line;
    Place(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    Refuse(mark, "aliases (*name) are not allowed");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Check(mark, tag, anchor);
    if (AwaitsKey()) {
      Frame& frame = stack_.back();
      if (frame.node.Find(value) != nullptr)
        Refuse(mark, absl::StrCat("the key \"", value, "\" is there twice"));
      frame.key = value;
      frame.key_line = Line(mark);
      return;
    }
    YamlNode node = Make(mark, YamlNode::Kind::kScalar);
    node.scalar = value;
    node.quoted = tag == "!";
    Place(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    Open(mark, tag, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    Open(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

  std::optional<YamlNode> TakeRoot() { return std::move(root_); }

 private:
  struct Frame {
    YamlNode node;
    std::optional<std::string> key = {};  // a map's key whose value comes next
    int key_line = 0;
  };

  int Line(const YAML::Mark& mark) const { return has_lines_ ? mark.line + 1 : 0; }

  [[noreturn]] void Refuse(const YAML::Mark& mark, std::string what) const {
    throw Refused(Line(mark), std::move(what));
  }

  void Check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != 0) Refuse(mark, "anchors (&name) are not allowed");
    if (!tag.empty() && tag != "?" && tag != "!") Refuse(mark, absl::StrCat("tags are not allowed: ", tag));
  }

  YamlNode Make(const YAML::Mark& mark, YamlNode::Kind kind) const {
    YamlNode node;
    node.kind = kind;
    node.origin = origin_;
    node.line = Line(mark);
    return node;
  }

  bool AwaitsKey() const {
    return !stack_.empty() && stack_.back().node.kind == YamlNode::Kind::kMap &&
           !stack_.back().key.has_value();
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    Check(mark, tag, anchor);
    if (AwaitsKey()) Refuse(mark, "a key must be plain text (is a bracket left open?)");
    if (stack_.size() >= static_cast<std::size_t>(kMaxYamlDepth)) {
      Refuse(mark, absl::StrCat("is nested more than ", kMaxYamlDepth, " levels deep"));
    }
    stack_.push_back(Frame{Make(mark, kind)});
  }

  void Close() {
    YamlNode node = std::move(stack_.back().node);
    stack_.pop_back();
    Place(std::move(node));
  }

  void Place(YamlNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = stack_.back();
    if (frame.node.kind == YamlNode::Kind::kList) {
      frame.node.items.push_back(std::move(node));
    } else {
      frame.node.entries.emplace_back(std::move(*frame.key), std::move(node));
      frame.key.reset();
    }
  }

  const std::shared_ptr<const std::string> origin_;
  const bool has_lines_;
  int num_documents_ = 0;
  std::vector<Frame> stack_;
  std::optional<YamlNode> root_;
};

// The one document of `text`; an empty text is a null node.
absl::StatusOr<YamlNode> ParseNode(std::string_view text, const std::string& origin, bool has_lines) {
  SCD_RETURN_IF_ERROR(CheckText(text, origin, has_lines ? 1 : 0));
  // A quote that is left open before a final line break would go unnoticed by the parser.
  text = text.substr(0, text.find_last_not_of(" \r\n") + 1);
  const auto shared_origin = std::make_shared<const std::string>(origin);
  TreeBuilder builder(shared_origin, has_lines);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refused& e) {
    return ErrorAt(origin, e.line(), e.what());
  } catch (const YAML::Exception& e) {
    return ErrorAt(origin, has_lines ? e.mark.line + 1 : 0, absl::StrCat("is not valid YAML: ", e.msg));
  } catch (const std::exception& e) {
    return ErrorAt(origin, 0, absl::StrCat("is not valid YAML: ", e.what()));
  }
  std::optional<YamlNode> root = builder.TakeRoot();
  if (!root.has_value()) {
    root.emplace();
    root->origin = shared_origin;
    root->line = has_lines ? 1 : 0;
  }
  return *std::move(root);
}

absl::Status ApplyOverride(YamlNode& root, const std::string& text) {
  const std::string origin = absl::StrCat("--set ", text);
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": expected section.key=value"));
  }
  SCD_ASSIGN_OR_RETURN(YamlNode value, ParseNode(std::string_view(text).substr(equals + 1), origin, false));

  const std::vector<std::string> path = absl::StrSplit(text.substr(0, equals), '.');
  if (path.size() > static_cast<std::size_t>(kMaxYamlDepth)) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": has more than ", kMaxYamlDepth, " levels"));
  }
  YamlNode* node = &root;
  for (const std::string& key : path) {
    if (key.empty()) return absl::InvalidArgumentError(absl::StrCat(origin, ": expected section.key=value"));
    if (node->kind == YamlNode::Kind::kNull) node->kind = YamlNode::Kind::kMap;
    if (node->kind != YamlNode::Kind::kMap) {
      return absl::InvalidArgumentError(absl::StrCat(
          origin, ": what \"", key, "\" is to be set in is not a section (", node->Location(), ")"));
    }
    auto entry = std::find_if(node->entries.begin(), node->entries.end(),
                              [&](const auto& candidate) { return candidate.first == key; });
    if (entry == node->entries.end()) {
      YamlNode made;
      made.origin = value.origin;
      node->entries.emplace_back(key, std::move(made));
      entry = std::prev(node->entries.end());
    }
    node = &entry->second;
  }
  *node = std::move(value);
  return absl::OkStatus();
}

}  // namespace

const YamlNode* YamlNode::Find(std::string_view key) const {
  for (const auto& [name, node] : entries) {
    if (name == key) return &node;
  }
  return nullptr;
}

std::string YamlNode::Location() const {
  return At(*origin, line);
}

absl::StatusOr<YamlDocument> YamlDocument::Load(const std::string& path,
                                                absl::Span<const std::string> overrides) {
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  return Parse(std::string_view(file->text().data(), file->text().size()), path, overrides);
}

absl::StatusOr<YamlDocument> YamlDocument::Parse(std::string_view text, const std::string& origin,
                                                 absl::Span<const std::string> overrides) {
  SCD_ASSIGN_OR_RETURN(YamlNode root, ParseNode(text, origin, true));
  if (root.kind == YamlNode::Kind::kNull) root.kind = YamlNode::Kind::kMap;
  if (root.kind != YamlNode::Kind::kMap)
    return ErrorAt(origin, root.line, "expected sections and keys (key: value)");
  for (const std::string& text_of_override : overrides) {
    SCD_RETURN_IF_ERROR(ApplyOverride(root, text_of_override));
  }
  return YamlDocument(std::move(root));
}

}  // namespace scd
