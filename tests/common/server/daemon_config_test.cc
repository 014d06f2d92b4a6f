#include "common/server/daemon_config.h"

#include <string>

#include "common/config/yaml_document.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

using ::testing::HasSubstr;

absl::Status Read(const std::string& text, DaemonConfig* config) {
  const auto document = YamlDocument::Parse(text, "f.yaml");
  if (!document.ok()) return document.status();
  YamlReader reader(*document);
  ReadDaemonConfig(reader.root(), config);
  return reader.Finish();
}

std::string ReadError(const std::string& text) {
  DaemonConfig config;
  config.grpc.listen = {"127.0.0.1", 1};
  return std::string(Read(text, &config).message());
}

TEST(DaemonConfigTest, DefaultsStay) {
  DaemonConfig config;
  config.grpc.listen = {"127.0.0.1", 7070};
  config.metrics_listen = HostPort{"127.0.0.1", 9470};
  ASSERT_TRUE(Read("", &config).ok());
  EXPECT_EQ(config.grpc.listen.ToString(), "127.0.0.1:7070");
  EXPECT_EQ(config.metrics_listen->ToString(), "127.0.0.1:9470");
  EXPECT_EQ(config.grpc.max_message_bytes, 16 << 20);
  EXPECT_EQ(config.log_level, LogLevel::kInfo);
  EXPECT_EQ(config.shutdown_grace_seconds, 30);
  EXPECT_EQ(config.trace.dir, "");
  EXPECT_EQ(config.trace.max_files, 100);
}

TEST(DaemonConfigTest, ReadsEveryField) {
  DaemonConfig config;
  const absl::Status status = Read(R"(server:
  listen: 0.0.0.0:0
  max_message_mib: 32
  keepalive_seconds: 15
  shutdown_grace_seconds: 0
  tls: {certificate: c.pem, key: k.pem, client_ca: ca.pem}
metrics: {listen: "[::1]:5"}
log: {level: debug}
trace: {dir: run/traces, max_files: 7}
)",
                                   &config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.grpc.listen.ToString(), "0.0.0.0:0");
  EXPECT_EQ(config.grpc.max_message_bytes, 32 << 20);
  EXPECT_EQ(config.grpc.keepalive_seconds, 15);
  EXPECT_EQ(config.shutdown_grace_seconds, 0);
  EXPECT_EQ(config.grpc.tls.certificate, "c.pem");
  EXPECT_EQ(config.grpc.tls.key, "k.pem");
  EXPECT_EQ(config.grpc.tls.client_ca, "ca.pem");
  EXPECT_EQ(config.metrics_listen->ToString(), "[::1]:5");
  EXPECT_EQ(config.trace.dir, "run/traces");
  EXPECT_EQ(config.trace.max_files, 7);
  EXPECT_EQ(config.log_level, LogLevel::kDebug);
}

TEST(DaemonConfigTest, MetricsCanBeOff) {
  DaemonConfig config;
  config.metrics_listen = HostPort{"127.0.0.1", 9470};
  ASSERT_TRUE(Read("metrics: {listen: off}\n", &config).ok());
  EXPECT_FALSE(config.metrics_listen.has_value());
}

TEST(DaemonConfigTest, EveryFieldHasItsRange) {
  EXPECT_THAT(ReadError("server: {listen: nowhere}\n"),
              HasSubstr("f.yaml:1: server.listen: expected host:port"));
  EXPECT_THAT(ReadError("server: {max_message_mib: 1}\n"), HasSubstr("allowed: 2 to 1024 MiB"));
  EXPECT_THAT(ReadError("server: {max_message_mib: 1025}\n"), HasSubstr("allowed: 2 to 1024 MiB"));
  EXPECT_THAT(ReadError("server: {keepalive_seconds: 9}\n"), HasSubstr("allowed: 10 to 7200 seconds"));
  EXPECT_THAT(ReadError("server: {shutdown_grace_seconds: -1}\n"), HasSubstr("allowed: 0 to 3600 seconds"));
  EXPECT_THAT(ReadError("server: {tls: {key: k}}\n"),
              HasSubstr("server.tls.key: certificate and key go together"));
  EXPECT_THAT(ReadError("server: {tls: {client_ca: k}}\n"),
              HasSubstr("server.tls.client_ca: needs a certificate"));
  EXPECT_THAT(ReadError("metrics: {listen: 80}\n"), HasSubstr("metrics.listen: expected host:port"));
  EXPECT_THAT(ReadError("log: {level: loud}\n"), HasSubstr("is not one of: debug, info, warning, error"));
  EXPECT_THAT(ReadError("server: {listn: x}\n"), HasSubstr("did you mean server.listen?"));
}

}  // namespace
}  // namespace scd
