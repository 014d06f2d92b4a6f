// Both daemons as they are shipped, told to draw timelines: what the files of one request say.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scd/v1/producer.grpc.pb.h"
#include "tests/e2e/tiny_pair_fixture.h"
#include "tests/support/loopback.h"

namespace scd::testing {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::int64_t kChunkTokens = 64;
constexpr std::int64_t kPrompt = 200;  // four chunks

std::vector<std::int32_t> Prompt(std::int32_t seed) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < kPrompt; ++i) ids.push_back((i * 37 + seed * 11) % 250);
  return ids;
}

// One span of a file; a code is named by layer, kind and first token.
struct Span {
  std::string name;
  std::int64_t begin_us = 0;
  std::int64_t end_us = 0;
  json args;

  using Code = std::tuple<std::int64_t, std::string, std::int64_t>;
  std::int64_t at(const char* key) const { return args.at(key).get<std::int64_t>(); }
  Code code() const { return {at("layer"), args.at("kind").get<std::string>(), at("first_token")}; }
};

class Timeline {
 public:
  explicit Timeline(const std::string& text) : document_(json::parse(text)) {
    for (const json& event : document_.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      const auto begin = event.at("ts").get<std::int64_t>();
      spans_[event.at("cat")].push_back(
          {event.at("name"), begin, begin + event.at("dur").get<std::int64_t>(), event.at("args")});
    }
  }

  const std::vector<Span>& of(const std::string& track) const {
    static const std::vector<Span> kNone;
    const auto it = spans_.find(track);
    return it == spans_.end() ? kNone : it->second;
  }
  // Those whose name begins so.
  std::vector<Span> of(const std::string& track, const std::string& name) const {
    std::vector<Span> found;
    for (const Span& span : of(track)) {
      if (span.name.rfind(name, 0) == 0) found.push_back(span);
    }
    return found;
  }
  std::map<Span::Code, Span> codes(const std::string& track, const std::string& name) const {
    std::map<Span::Code, Span> found;
    for (const Span& span : of(track, name)) {
      if (!span.args.contains("kind")) continue;
      EXPECT_TRUE(found.emplace(span.code(), span).second) << track << ": twice: " << span.args;
    }
    return found;
  }
  std::string outcome() const { return document_.at("otherData").at("outcome"); }
  std::string request_id() const { return document_.at("otherData").at("request_id"); }
  std::int64_t num_dropped() const { return document_.at("otherData").at("dropped_events"); }

  // Spans of a track follow each other or lie inside one another, and all of them inside the request.
  void CheckNesting() const {
    const std::vector<Span> whole = of("request", "request");
    ASSERT_EQ(whole.size(), 1u);
    for (const auto& [track, spans] : spans_) {
      std::vector<Span> sorted = spans;
      std::stable_sort(sorted.begin(), sorted.end(), [](const Span& a, const Span& b) {
        return std::pair(a.begin_us, -a.end_us) < std::pair(b.begin_us, -b.end_us);
      });
      std::vector<Span> open;
      for (const Span& span : sorted) {
        EXPECT_GE(span.begin_us, whole[0].begin_us) << track << ": " << span.name;
        while (!open.empty() && open.back().end_us <= span.begin_us) open.pop_back();
        if (!open.empty()) {
          EXPECT_LE(span.end_us, open.back().end_us) << track << ": " << span.name;
        }
        open.push_back(span);
      }
    }
  }

 private:
  const json document_;
  std::map<std::string, std::vector<Span>> spans_;
};

class TraceTest : public TinyPairFixture {
 protected:
  void Prepare(PairFiles& files) override {
    std::filesystem::create_directory(traces());
    for (std::vector<std::string>* settings : {&files.producer_settings, &files.consumer_settings}) {
      settings->push_back("trace.dir=" + traces());
      settings->push_back("trace.max_files=6");
    }
    files.producer_settings.push_back(absl::StrCat("prefill.chunk_tokens=", kChunkTokens));
  }

  std::string traces() const { return dir_.File("traces"); }

  std::vector<std::string> FilesOf(const std::string& side) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(traces())) {
      const std::string name = entry.path().filename().string();
      if (name.find("." + side + ".") != std::string::npos && entry.path().extension() == ".json") {
        names.push_back(name);
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Files are written after the answer.
  std::vector<std::string> WaitForFiles(const std::string& side, std::size_t count) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (FilesOf(side).size() < count && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return FilesOf(side);
  }

  Timeline Read(const std::string& side, const std::string& request_id) const {
    for (const std::string& name : FilesOf(side)) {
      if (name.rfind(request_id + ".", 0) == 0) return Timeline(ReadFile(traces() + "/" + name));
    }
    ADD_FAILURE() << "no trace of " << request_id << " from the " << side;
    return Timeline(
        R"({"otherData": {"outcome": "", "request_id": "", "dropped_events": 0}, "traceEvents": []})");
  }

  Answer Ask(const std::string& request_id, std::int32_t seed = 1, const std::string& mode = "scd") {
    v1::GenerateRequest request = ConsumerClient::Request(Prompt(seed), mode, v1::POLICY_REQUIRE);
    request.set_request_id(request_id);
    request.mutable_transfer()->set_no_prefix_cache(true);
    return pair_->client().Generate(request);
  }
};

TEST_F(TraceTest, EveryChunkAndLayerIsEncodedSentReceivedAndRebuilt) {
  const Answer answer = Ask("drawn");
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(WaitForFiles("producer", 1).size(), 1u);
  ASSERT_EQ(WaitForFiles("consumer", 1).size(), 1u);
  const Timeline producer = Read("producer", "drawn");
  const Timeline consumer = Read("consumer", "drawn");
  for (const Timeline* side : {&producer, &consumer}) {
    EXPECT_EQ(side->request_id(), "drawn");
    EXPECT_EQ(side->outcome(), "ok");
    EXPECT_EQ(side->num_dropped(), 0);
    side->CheckNesting();
  }

  const std::vector<Span> chunks = producer.of("prefill", "prefill chunk");
  EXPECT_GE(chunks.size(), 3u);
  const auto encoded = producer.codes("encode", "encode");
  const auto sent = producer.codes("send", "send");
  const auto received = consumer.codes("receive", "receive");
  const auto rebuilt = consumer.codes("rebuild", "rebuild");
  std::set<std::pair<std::int64_t, std::string>> columns;
  for (const auto& [code, span] : encoded) columns.emplace(std::get<0>(code), std::get<1>(code));
  EXPECT_GE(columns.size(), 4u);

  std::int64_t bytes = 0;
  for (const auto& [code, span] : sent) {
    EXPECT_TRUE(encoded.contains(code)) << span.args;
    ASSERT_TRUE(received.contains(code)) << span.args;
    ASSERT_TRUE(rebuilt.contains(code)) << span.args;
    EXPECT_EQ(received.at(code).args.at("bytes"), span.args.at("bytes"));
    // The clocks of one machine agree to far less than it takes to be late by so much.
    EXPECT_LE(span.begin_us, received.at(code).begin_us + 1000) << span.args;
    EXPECT_LE(received.at(code).end_us, rebuilt.at(code).begin_us) << span.args;
    bytes += span.at("bytes");
  }
  EXPECT_EQ(sent.size(), received.size());
  EXPECT_EQ(sent.size(), rebuilt.size());
  EXPECT_EQ(bytes, static_cast<std::int64_t>(answer.report().code_bytes()));

  // Each layer and kind of each chunk, as far as codes were wanted of it.
  std::int64_t covered = 0;
  for (const Span& chunk : chunks) {
    const std::int64_t begin = chunk.at("first_token");
    const std::int64_t end = begin + chunk.at("tokens");
    for (const auto& [layer, kind] : columns) {
      std::int64_t tokens = 0;
      for (const auto& [code, span] : rebuilt) {
        if (std::get<0>(code) == layer && std::get<1>(code) == kind && std::get<2>(code) >= begin &&
            std::get<2>(code) < end) {
          tokens += span.at("tokens");
        }
      }
      EXPECT_GT(tokens, 0) << "layer " << layer << " " << kind << ", chunk at " << begin;
      covered += tokens;
    }
    std::set<std::int64_t> layers;
    for (const Span& span : producer.of("prefill", "compute layer")) {
      if (span.at("chunk") == chunk.at("chunk")) layers.insert(span.at("layer"));
    }
    for (const auto& [layer, kind] : columns) EXPECT_TRUE(layers.contains(layer)) << layer;
  }
  EXPECT_EQ(covered, static_cast<std::int64_t>(answer.report().transferred_tokens() * columns.size()));

  EXPECT_EQ(producer.of("request", "queue").size(), 1u);
  EXPECT_EQ(consumer.of("request", "tokenise").size(), 1u);
  EXPECT_EQ(consumer.of("request", "queue").size(), 1u);
  EXPECT_EQ(consumer.of("transfer", "transfer").size(), 1u);
  EXPECT_EQ(consumer.of("transfer", "handshake").size(), 1u);
  EXPECT_EQ(consumer.of("transfer", "wait for the first frame").size(), 1u);
  EXPECT_EQ(consumer.of("native", "native head").size(), 1u);
  EXPECT_GE(consumer.of("native", "native rest").size(), 1u);
  EXPECT_EQ(consumer.of("decode", "step").size(), answer.ids.size() - 1);
}

TEST_F(TraceTest, CodesFromTheStoreAreDrawnToo) {
  ASSERT_TRUE(Ask("first").status.ok());
  const Answer answer = Ask("second");
  ASSERT_GT(answer.report().stored_tokens(), 0u);
  ASSERT_EQ(WaitForFiles("producer", 2).size(), 2u);
  ASSERT_EQ(WaitForFiles("consumer", 2).size(), 2u);
  const auto sent = Read("producer", "second").codes("send", "send");
  EXPECT_GT(sent.size(), 0u);
  for (const std::string track : {"receive", "rebuild"}) {
    const auto there = Read("consumer", "second").codes(track, track);
    EXPECT_EQ(there.size(), sent.size());
    for (const auto& [code, span] : sent) EXPECT_TRUE(there.contains(code)) << track << span.args;
  }
}

TEST_F(TraceTest, ANativeRequestIsTheConsumersAlone) {
  ASSERT_TRUE(Ask("native", 1, "local").status.ok());
  ASSERT_EQ(WaitForFiles("consumer", 1).size(), 1u);
  const Timeline consumer = Read("consumer", "native");
  EXPECT_GE(consumer.of("native", "native rest").size(), 1u);
  EXPECT_THAT(consumer.of("transfer"), IsEmpty());
  EXPECT_THAT(FilesOf("producer"), IsEmpty());
}

TEST_F(TraceTest, ARequestThatFailsIsDrawnWithItsOutcome) {
  pair_->KillProducer();
  ASSERT_FALSE(Ask("failed").status.ok());
  ASSERT_EQ(WaitForFiles("consumer", 1).size(), 1u);
  const Timeline consumer = Read("consumer", "failed");
  EXPECT_EQ(consumer.outcome(), "unavailable");
  consumer.CheckNesting();
}

TEST_F(TraceTest, HostileRequestIdsNameFilesInTheFolderOnly) {
  const std::vector<std::string> ids = {"../../x", "/etc/x", std::string(128, 'l'),
                                        "\xe4\xbd\xa0\xe5\xa5\xbd", "a\nb\"c\\"};
  std::int32_t seed = 2;
  for (const std::string& id : ids) ASSERT_TRUE(Ask(id, seed++).status.ok());
  EXPECT_EQ(Ask(std::string(5000, 'x')).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_EQ(WaitForFiles("consumer", 6).size(), 6u);
  // The producer takes ids of any length.
  const auto stub = v1::Producer::NewStub(LoopbackChannel(pair_->producer().port()));
  grpc::ClientContext context;
  v1::PrefillRequest request;
  request.set_request_id(std::string(1 << 20, 'y'));
  EXPECT_FALSE(stub->Prefill(&context, request)->Finish().ok());
  ASSERT_EQ(WaitForFiles("producer", 6).size(), 6u);

  for (const std::string side : {"producer", "consumer"}) {
    std::set<std::string> seen;
    for (const std::string& name : FilesOf(side)) {
      EXPECT_LE(name.size(), 100u);
      seen.insert(Timeline(ReadFile(traces() + "/" + name)).request_id());
    }
    for (const std::string& id : ids) EXPECT_THAT(seen, Contains(id)) << side;
  }
  std::vector<std::string> others;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
    others.push_back(entry.path().filename().string());
  EXPECT_THAT(others, Not(Contains("x")));
  EXPECT_EQ(others.size(), 3u) << "model, bundle and traces";
}

TEST_F(TraceTest, OnlyTheYoungestFilesAreKept) {
  for (std::int32_t i = 0; i < 9; ++i) ASSERT_TRUE(Ask(absl::StrCat("r", i), i + 1).status.ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (pair_->consumer().Metric("scd_traces_written_total") < 9 &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(pair_->consumer().Metric("scd_traces_lost_total"), 0);
  const std::vector<std::string> names = FilesOf("consumer");
  ASSERT_EQ(names.size(), 6u);
  EXPECT_EQ(names.front(), "r3.consumer.000004.json");
}

using NoTraceTest = TinyPairFixture;

TEST_F(NoTraceTest, WithoutAFolderNothingIsWritten) {
  ASSERT_TRUE(
      pair_->client().Generate(ConsumerClient::Request(Prompt(1), "scd", v1::POLICY_REQUIRE)).status.ok());
  EXPECT_EQ(pair_->consumer().Metric("scd_traces_written_total"), -1);
  EXPECT_EQ(pair_->producer().Metric("scd_traces_written_total"), -1);
  ASSERT_TRUE(pair_->BecomesIdle(5));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path())) {
    EXPECT_EQ(entry.path().string().find("consumer."), std::string::npos) << entry.path();
    EXPECT_EQ(entry.path().string().find("producer."), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace scd::testing
