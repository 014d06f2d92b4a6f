#include "common/store/redis_settings.h"

#include <string>

#include "common/config/yaml_document.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"

namespace scd::testing {
namespace {

using ::testing::HasSubstr;

absl::Status Read(const std::string& text, RedisSettings* settings, bool writes = true) {
  const auto document = YamlDocument::Parse(text, "test.yaml");
  if (!document.ok()) return document.status();
  YamlReader reader(*document);
  ReadRedisSettings(reader.root().Section("redis"), writes, settings);
  return reader.Finish();
}

TEST(RedisSettingsTest, OffByDefault) {
  RedisSettings settings;
  ASSERT_TRUE(Read("{}", &settings).ok());
  EXPECT_FALSE(settings.enabled());
}

TEST(RedisSettingsTest, EveryFieldComesThrough) {
  const TempDir folder;
  WriteFile(folder.File("password"), "geheim\n");
  RedisSettings settings;
  const absl::Status status = Read(
      "redis: {address: 'cache:6379', database: 3, user: scd, password_file: " + folder.File("password") +
          ", key_prefix: 'x:', ttl_seconds: 60, timeout_ms: 70, retry_seconds: 8, "
          "queue_mib: 9}",
      &settings);
  ASSERT_TRUE(status.ok()) << status;
  const auto options = RedisOptions(settings, true);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->server.host, "cache");
  EXPECT_EQ(options->server.port, 6379);
  EXPECT_EQ(options->server.database, 3);
  EXPECT_EQ(options->server.user, "scd");
  EXPECT_EQ(options->server.password, "geheim");
  EXPECT_EQ(options->key_prefix, "x:");
  EXPECT_EQ(options->ttl, absl::Seconds(60));
  EXPECT_EQ(options->timeout, absl::Milliseconds(70));
  EXPECT_EQ(options->retry_interval, absl::Seconds(8));
  EXPECT_EQ(options->max_queued_bytes, 9 << 20);
}

TEST(RedisSettingsTest, NoTimeToLiveIsForEver) {
  RedisSettings settings;
  ASSERT_TRUE(Read("redis: {address: 'unix:/run/redis.sock', ttl_seconds: 0}", &settings).ok());
  EXPECT_EQ(RedisOptions(settings, true)->ttl, absl::InfiniteDuration());
}

TEST(RedisSettingsTest, WhatIsWrongIsNamed) {
  for (const auto& [text, field] :
       {std::pair{"{address: nowhere}", "redis.address"},
        {"{address: 'a:1', database: -1}", "redis.database"},
        {"{address: 'a:1', user: me}", "redis.user"},
        {"{address: 'a:1', password: x, password_file: y}", "redis.password_file"},
        {"{address: 'a:1', key_prefix: ''}", "redis.key_prefix"},
        {"{address: 'a:1', key_prefix: 'a b'}", "redis.key_prefix"},
        {"{address: 'a:1', timeout_ms: 0}", "redis.timeout_ms"},
        {"{address: 'a:1', ttl: 5}", "redis.ttl"}}) {
    RedisSettings settings;
    const absl::Status status = Read(std::string("redis: ") + text, &settings);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(field)) << text;
  }
  RedisSettings settings;
  EXPECT_FALSE(Read("redis: {queue_mib: 5}", &settings, /*writes=*/false).ok());
}

TEST(RedisSettingsTest, AFileWithoutAPasswordIsAnError) {
  const TempDir folder;
  RedisSettings settings;
  settings.address = "a:1";
  settings.password_file = folder.File("none");
  EXPECT_EQ(RedisOptions(settings, true).status().code(), absl::StatusCode::kNotFound);
  WriteFile(folder.File("empty"), "\n");
  settings.password_file = folder.File("empty");
  EXPECT_EQ(RedisOptions(settings, true).status().code(), absl::StatusCode::kInvalidArgument);
  WriteFile(folder.File("long"), std::string(5000, 'x'));
  settings.password_file = folder.File("long");
  EXPECT_EQ(RedisOptions(settings, true).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(RedisOptions(settings, true).status().message()), HasSubstr(folder.File("long")));
}

}  // namespace
}  // namespace scd::testing
