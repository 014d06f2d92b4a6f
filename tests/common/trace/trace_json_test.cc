#include "common/trace/trace_json.h"

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace scd {
namespace {

using nlohmann::json;

const TraceOrigin kOrigin = {.program = "scd-producer", .side = "producer", .process_id = 42};

json Parsed(RequestTrace& trace) {
  const std::string text = TraceToJson(trace, kOrigin);
  json parsed = json::parse(text, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << text;
  return parsed;
}

std::vector<json> OfPhase(const json& document, const std::string& phase) {
  std::vector<json> events;
  for (const json& event : document.at("traceEvents")) {
    if (event.at("ph") == phase) events.push_back(event);
  }
  return events;
}

TEST(TraceJsonTest, SaysWhoseItIs) {
  RequestTrace trace("req-1");
  trace.End("ok");
  const json other = Parsed(trace).at("otherData");
  EXPECT_EQ(other.at("request_id"), "req-1");
  EXPECT_EQ(other.at("program"), "scd-producer");
  EXPECT_EQ(other.at("side"), "producer");
  EXPECT_EQ(other.at("outcome"), "ok");
  EXPECT_EQ(other.at("dropped_events"), 0);
}

TEST(TraceJsonTest, AnEventHasItsNameTrackTimesAndArguments) {
  RequestTrace trace("r");
  const auto begin = trace.begin();
  trace.AddSpan(TraceTrack::kEncode, "encode", begin + std::chrono::microseconds(100),
                begin + std::chrono::microseconds(350),
                {.layer = 3, .chunk = 1, .first_token = 64, .tokens = 32, .bytes = 5, .kind = "kv"});
  trace.AddSpan(TraceTrack::kPrefill, "prefill", begin, begin, {.chunk = 2});
  trace.AddMoment(TraceTrack::kRequest, "first token");
  trace.AddCount(TraceTrack::kSend, "frames waiting", 7);
  const json document = Parsed(trace);

  const std::vector<json> spans = OfPhase(document, "X");
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].at("name"), "request");
  const json& encode = spans[1];
  EXPECT_EQ(encode.at("name"), "encode layer 3 kv");
  EXPECT_EQ(encode.at("cat"), "encode");
  EXPECT_EQ(encode.at("pid"), 42);
  EXPECT_EQ(encode.at("ts").get<std::int64_t>() - spans[0].at("ts").get<std::int64_t>(), 100);
  EXPECT_EQ(encode.at("dur"), 250);
  EXPECT_EQ(encode.at("args"), json::parse(R"({"layer": 3, "chunk": 1, "first_token": 64, "tokens": 32,
                                              "bytes": 5, "kind": "kv"})"));
  EXPECT_EQ(spans[2].at("name"), "prefill chunk 2");
  EXPECT_EQ(OfPhase(document, "i").at(0).at("name"), "first token");
  const json count = OfPhase(document, "C").at(0);
  EXPECT_EQ(count.at("name"), "frames waiting");
  EXPECT_EQ(count.at("args").at("count"), 7);
}

TEST(TraceJsonTest, NamesProcessAndEveryTrackOnce) {
  RequestTrace trace("r");
  for (int i = 0; i < 3; ++i) trace.AddMoment(TraceTrack::kRebuild, "m");
  trace.AddMoment(TraceTrack::kDecode, "m");
  std::map<std::string, std::map<int, std::string>> names;
  for (const json& event : OfPhase(Parsed(trace), "M")) {
    if (event.at("name") == "thread_sort_index") continue;
    const bool added =
        names[event.at("name")].emplace(event.at("tid").get<int>(), event.at("args").at("name")).second;
    EXPECT_TRUE(added) << event;
  }
  EXPECT_EQ(names.at("process_name").at(0), "scd-producer");
  EXPECT_EQ(names.at("thread_name").size(), 3u);
  EXPECT_EQ(names.at("thread_name").at(static_cast<int>(TraceTrack::kRebuild) + 1), "rebuild");
}

TEST(TraceJsonTest, WhatLiesInsideStaysInside) {
  RequestTrace trace("r");
  for (int i = 0; i < 200; ++i) {
    const TraceSpan outer(&trace, TraceTrack::kPrefill, "outer");
    const TraceSpan inner(&trace, TraceTrack::kPrefill, "inner");
  }
  std::int64_t inner_begin = 0;
  std::int64_t inner_end = 0;
  for (const json& event : OfPhase(Parsed(trace), "X")) {
    const auto begin = event.at("ts").get<std::int64_t>();
    const auto end = begin + event.at("dur").get<std::int64_t>();
    if (event.at("name") == "inner") {
      inner_begin = begin;
      inner_end = end;
    } else if (event.at("name") == "outer") {
      EXPECT_LE(begin, inner_begin);
      EXPECT_LE(inner_end, end);
    }
  }
  EXPECT_GT(inner_end, 0);
}

TEST(TraceJsonTest, HostileIdsGiveValidJson) {
  for (const std::string& id : {std::string("\"}],\"x\":[{"), std::string("\\"), std::string("a\0b\n\x7f", 5),
                                std::string("\xff\xfe\xc3"), std::string("\xe4\xbd\xa0\xe5\xa5\xbd"),
                                std::string(127, 'a') + "\xe4\xbd\xa0"}) {
    RequestTrace trace(id);
    trace.AddMoment(TraceTrack::kRequest, "m");
    const json document = Parsed(trace);
    EXPECT_EQ(document.size(), 3u);
    EXPECT_EQ(OfPhase(document, "i").size(), 1u);
  }
  RequestTrace trace("\xe4\xbd\xa0");
  EXPECT_EQ(Parsed(trace).at("otherData").at("request_id"), "\xe4\xbd\xa0");
}

TEST(TraceJsonTest, SaysHowManyEventsWereDropped) {
  RequestTrace trace("r", 2);
  for (int i = 0; i < 5; ++i) trace.AddMoment(TraceTrack::kRequest, "m");
  EXPECT_EQ(Parsed(trace).at("otherData").at("dropped_events"), 3);
}

}  // namespace
}  // namespace scd
