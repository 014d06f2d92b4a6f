#include "common/server/listen_address.h"

#include "gtest/gtest.h"

namespace scd {
namespace {

TEST(ListenAddressTest, ReadsHostsAndPorts) {
  for (const char* text :
       {"127.0.0.1:7070", "localhost:0", "[::1]:65535", "0.0.0.0:1", "my-host.example:80"}) {
    const auto parsed = ParseHostPort(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->ToString(), text);
  }
  EXPECT_EQ(ParseHostPort("[::1]:80")->host, "::1");
}

TEST(ListenAddressTest, RefusesEverythingElse) {
  for (const char* text : {"", "7070", "localhost", ":7070", "localhost:", "localhost:-1", "localhost:65536",
                           "localhost:7 0", "localhost:+7", "::1:80", "[::1]", "[host]:80", "a b:80",
                           "unix:/tmp/x", "dns:///x:1", "127.0.0.1:0x10", "h:123456", "a/b:80"}) {
    EXPECT_EQ(ParseHostPort(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace scd
