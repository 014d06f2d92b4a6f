#include "common/trace/trace_file_name.h"

#include <string>

#include "gtest/gtest.h"

namespace scd {
namespace {

TEST(TraceFileNameTest, HoldsIdSideAndSequence) {
  EXPECT_EQ(TraceFileName("consumer-7", "producer", 12), "consumer-7.producer.000012.json");
  EXPECT_EQ(TraceFileName("a", "consumer", 12345678), "a.consumer.12345678.json");
}

TEST(TraceFileNameTest, IdsFromOutsideAreMadeSafe) {
  EXPECT_EQ(TraceFileName("", "p", 1), "request.p.000001.json");
  EXPECT_EQ(TraceFileName("../../x", "p", 1), "_._.._x.p.000001.json");
  EXPECT_EQ(TraceFileName("/etc/passwd", "p", 1), "_etc_passwd.p.000001.json");
  EXPECT_EQ(TraceFileName(".hidden", "p", 1), "_hidden.p.000001.json");
  EXPECT_EQ(TraceFileName("..", "p", 1), "_..p.000001.json");
  EXPECT_EQ(TraceFileName("a b;c$(d)\n*", "p", 1), "a_b_c__d___.p.000001.json");
  EXPECT_EQ(TraceFileName("\xe4\xbd\xa0", "p", 1), "___.p.000001.json");
  EXPECT_EQ(TraceFileName(std::string("a\0b", 3), "p", 1), "a_b.p.000001.json");
  const std::string longest = TraceFileName(std::string(5000, 'y'), "producer", 1);
  EXPECT_EQ(longest, std::string(kMaxNameIdBytes, 'y') + ".producer.000001.json");
}

TEST(TraceFileNameTest, EveryByteGivesANameWithoutSeparators) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string name = TraceFileName(std::string(3, static_cast<char>(byte)), "p", 1);
    EXPECT_EQ(name.find('/'), std::string::npos) << byte;
    EXPECT_EQ(name.find('\0'), std::string::npos) << byte;
    EXPECT_NE(name.front(), '.') << byte;
    EXPECT_EQ(SequenceOfTraceFile(name, "p"), 1) << name;
  }
}

TEST(TraceFileNameTest, KnowsItsOwnFilesAgain) {
  EXPECT_EQ(SequenceOfTraceFile("x.producer.000012.json", "producer"), 12);
  EXPECT_EQ(SequenceOfTraceFile("x.producer.000012.json.part", "producer"), 12);
  EXPECT_EQ(SequenceOfTraceFile("x.y.producer.12345678.json", "producer"), 12345678);
  for (const char* other :
       {"", "x.consumer.000012.json", "x.producer.000012.txt", "x.producer.json", "x.producer.00a.json",
        "x.producer.-1.json", "producer.000012.json", ".producer.000012.json", "xproducer.000012.json",
        "x.producer.99999999999999999999.json", "x.producer.000012.json.part.part", "notes.json"}) {
    EXPECT_EQ(SequenceOfTraceFile(other, "producer"), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace scd
