#include "common/cache/kv_cache_settings.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<KvCacheSettings> Read(const std::string& text) {
  const auto document = YamlDocument::Parse(text, "test.yaml");
  if (!document.ok()) return document.status();
  YamlReader reader(*document);
  KvCacheSettings settings;
  ReadKvCacheSettings(reader.root().Section("kv_cache"), &settings);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return settings;
}

TEST(KvCacheSettingsTest, ReadsEveryField) {
  const auto settings =
      Read("kv_cache: {memory_mib: 64, page_tokens: 16, dtype: int8, prefix_sharing: false}");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->memory_mib, 64);
  EXPECT_EQ(settings->page_tokens, 16);
  EXPECT_EQ(settings->dtype, DType::kI8);
  EXPECT_FALSE(settings->prefix_sharing);
  EXPECT_TRUE(Read("kv_cache: {}")->prefix_sharing);
  EXPECT_FALSE(Read("kv_cache: {memory_mib: auto}")->memory_mib.has_value());
}

TEST(KvCacheSettingsTest, RefusesWhatCannotBe) {
  const auto message = [](const std::string& text) { return std::string(Read(text).status().message()); };
  EXPECT_THAT(message("kv_cache: {memory_mib: 0}"), HasSubstr("kv_cache.memory_mib"));
  EXPECT_THAT(message("kv_cache: {memory_mib: some}"), HasSubstr("kv_cache.memory_mib"));
  EXPECT_THAT(message("kv_cache: {dtype: f16}"), HasSubstr("kv_cache.dtype"));
  EXPECT_THAT(message("kv_cache: {memory_mib: 64, pages: -1}"), HasSubstr("kv_cache.pages"));
  EXPECT_THAT(message("kv_cache: {prefix_sharing: 3}"), HasSubstr("kv_cache.prefix_sharing"));
}

// What --set kv_cache.pages gives over a file that sets memory_mib.
TEST(KvCacheSettingsTest, PagesWinOverMemory) {
  const KvLayout layout{
      .num_layers = 2, .num_kv_heads = 4, .head_dim = 8, .page_tokens = 16, .dtype = DType::kF32};
  for (const char* memory : {"64", "auto"}) {
    const auto settings = Read(std::string("kv_cache: {pages: 3, memory_mib: ") + memory + "}");
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(*NumPages(*settings, layout), 3) << memory;
  }
  const auto settings = Read("kv_cache: {pages: 0, memory_mib: 64}");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(*NumPages(*settings, layout), (std::int64_t{64} << 20) / layout.page_bytes());
}

TEST(KvCacheSettingsTest, CountsPages) {
  ModelConfig model;
  model.num_layers = 2;
  model.num_kv_heads = 4;
  model.head_dim = 8;
  KvCacheSettings settings{.memory_mib = 1, .page_tokens = 16};
  const KvLayout layout = LayoutFor(settings, model);
  EXPECT_EQ(layout.page_bytes(), 2 * 2 * 4 * 16 * 8 * 4);
  EXPECT_EQ(*NumPages(settings, layout), (1 << 20) / layout.page_bytes());
  settings.dtype = DType::kBF16;
  EXPECT_EQ(*NumPages(settings, LayoutFor(settings, model)), 2 * ((1 << 20) / layout.page_bytes()));
  settings.pages = 7;  // whatever memory_mib says
  EXPECT_EQ(*NumPages(settings, layout), 7);
  settings.pages = 0;
  settings.memory_mib.reset();
  const auto automatic = NumPages(settings, layout);
  if (!automatic.ok()) GTEST_SKIP() << automatic.status();
  EXPECT_GT(*automatic, 10);
}

}  // namespace
}  // namespace scd
