#include "common/trace/trace_json.h"

#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace scd {
namespace {

absl::string_view A(std::string_view text) {
  return {text.data(), text.size()};
}

// Text from outside as a JSON string of ASCII.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// Everything but request ids is text of ours, without anything to escape.
class Writer {
 public:
  Writer(const RequestTrace& trace, const TraceOrigin& origin)
      : trace_(trace), process_(absl::StrCat("\"pid\":", origin.process_id, ",\"tid\":")) {}

  void NameProcess(std::string_view program) {
    Begin();
    absl::StrAppend(&text_, "{\"ph\":\"M\",\"name\":\"process_name\",", process_, "0,\"args\":{\"name\":\"",
                    A(program), "\"}}");
  }

  void Add(const TraceEvent& event) {
    NameTrack(event.track);
    Begin();
    if (event.form == TraceEvent::Form::kCount) {
      absl::StrAppend(&text_, "{\"ph\":\"C\",\"name\":\"", A(event.name), "\",", process_, Id(event.track),
                      ",\"ts\":", trace_.WallMicroseconds(event.begin), ",\"args\":{\"count\":", event.count,
                      "}}");
      return;
    }
    const std::int64_t begin = trace_.WallMicroseconds(event.begin);
    absl::StrAppend(&text_, "{\"ph\":\"", event.form == TraceEvent::Form::kSpan ? "X" : "i", "\",\"name\":\"",
                    A(event.name));
    AppendToName(event.detail);
    absl::StrAppend(&text_, "\",\"cat\":\"", A(TraceTrackName(event.track)), "\",", process_, Id(event.track),
                    ",\"ts\":", begin);
    if (event.form == TraceEvent::Form::kSpan) {
      absl::StrAppend(&text_, ",\"dur\":", trace_.WallMicroseconds(event.end) - begin);
    } else {
      absl::StrAppend(&text_, ",\"s\":\"t\"");
    }
    AppendArguments(event.detail);
    text_ += '}';
  }

  std::string& text() { return text_; }

 private:
  static int Id(TraceTrack track) { return static_cast<int>(track) + 1; }

  void Begin() {
    if (!first_) text_ += ",\n";
    first_ = false;
  }

  // Once for each track that is used.
  void NameTrack(TraceTrack track) {
    bool& named = named_.at(static_cast<std::size_t>(track));
    if (named) return;
    named = true;
    Begin();
    absl::StrAppend(&text_, "{\"ph\":\"M\",\"name\":\"thread_name\",", process_, Id(track),
                    ",\"args\":{\"name\":\"", A(TraceTrackName(track)), "\"}}");
    Begin();
    absl::StrAppend(&text_, "{\"ph\":\"M\",\"name\":\"thread_sort_index\",", process_, Id(track),
                    ",\"args\":{\"sort_index\":", Id(track), "}}");
  }

  void AppendToName(const TraceDetail& detail) {
    if (detail.chunk >= 0 && detail.layer < 0) absl::StrAppend(&text_, " chunk ", detail.chunk);
    if (detail.layer >= 0) absl::StrAppend(&text_, " layer ", detail.layer);
    if (!detail.kind.empty()) absl::StrAppend(&text_, " ", A(detail.kind));
  }

  void AppendArguments(const TraceDetail& detail) {
    absl::StrAppend(&text_, ",\"args\":{");
    bool first = true;
    const auto begin = [&](std::string_view name) {
      absl::StrAppend(&text_, first ? "\"" : ",\"", A(name), "\":");
      first = false;
    };
    const auto number = [&](std::string_view name, std::int64_t value) {
      if (value < 0) return;
      begin(name);
      absl::StrAppend(&text_, value);
    };
    number("layer", detail.layer);
    number("chunk", detail.chunk);
    number("first_token", detail.first_token);
    number("tokens", detail.tokens);
    number("bytes", detail.bytes);
    if (!detail.kind.empty()) {
      begin("kind");
      absl::StrAppend(&text_, "\"", A(detail.kind), "\"");
    }
    text_ += '}';
  }

  const RequestTrace& trace_;
  const std::string process_;
  std::string text_;
  bool first_ = true;
  std::array<bool, kNumTraceTracks> named_{};
};

}  // namespace

std::string TraceToJson(RequestTrace& trace, const TraceOrigin& origin) {
  const RequestTrace::Record record = trace.Take();
  Writer writer(trace, origin);
  absl::StrAppend(&writer.text(),
                  "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"request_id\":", Quoted(trace.request_id()),
                  ",\"program\":\"", origin.program, "\",\"side\":\"", origin.side, "\",\"outcome\":\"",
                  A(record.outcome), "\",\"dropped_events\":", record.num_dropped, "},\n\"traceEvents\":[\n");
  writer.NameProcess(origin.program);
  for (const TraceEvent& event : record.events) writer.Add(event);
  absl::StrAppend(&writer.text(), "\n]}\n");
  return std::move(writer.text());
}

}  // namespace scd
