#include "common/config/cuda_yaml.h"

#include "gmock/gmock.h"

namespace scd {
namespace {

absl::StatusOr<CudaOptions> Read(const std::string& text) {
  const auto document = YamlDocument::Parse(text, "consumer.yaml");
  if (!document.ok()) return document.status();
  YamlReader reader(*document);
  CudaOptions options;
  ReadCudaOptions(reader.root().Section("cuda"), &options);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return options;
}

TEST(CudaYamlTest, FieldsAndDefaults) {
  const auto given = Read("cuda: {plugin: /opt/libscd_cuda.so, device: 3, scratch_mib: 64}");
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->plugin, "/opt/libscd_cuda.so");
  EXPECT_EQ(given->device, 3);
  EXPECT_EQ(given->scratch_mib, 64);
  EXPECT_EQ(Read("cuda: {memory_mib: 4096}")->memory_mib, 4096);
  EXPECT_EQ(Read("cuda: {memory_mib: 0}")->memory_mib, 0);
  EXPECT_EQ(Read("cuda: {memory_mib: auto}")->memory_mib, std::nullopt);
  const auto defaults = Read("{}");
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->plugin, "");
  EXPECT_EQ(defaults->device, 0);
  EXPECT_EQ(defaults->memory_mib, CudaOptions().memory_mib);
  EXPECT_EQ(defaults->scratch_mib, CudaOptions().scratch_mib);
}

TEST(CudaYamlTest, WhatIsOutOfRangeIsNamed) {
  for (const char* text : {"cuda: {device: -1}", "cuda: {scratch_mib: 0}", "cuda: {scratch: 1}",
                           "cuda: {memory_mib: -1}", "cuda: {memory_mib: some}"}) {
    const auto options = Read(text);
    EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(options.status().message()), ::testing::HasSubstr("cuda.")) << text;
  }
}

}  // namespace
}  // namespace scd
