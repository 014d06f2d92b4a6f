#include "common/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A file's bytes from a header text and a data section.
std::string Safetensors(const std::string& header, const std::string& data) {
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i));
  return out + header + data;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  absl::Status OpenBytes(const std::string& bytes) {
    testing::WriteFile(path_, bytes);
    return SafetensorsFile::Open(path_).status();
  }

  testing::TempDir dir_;
  const std::string path_ = dir_.File("t.safetensors");
};

TEST_F(SafetensorsTest, WritesWhatItReads) {
  const std::vector<float> f = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint16_t> h = {7, 8, 9};
  const std::vector<std::uint8_t> b = {1};
  const std::vector<std::int32_t> i = {-1, 5};
  const absl::Status written = WriteSafetensors(path_,
                                                {{"bytes", ConstTensorView(b.data(), DType::kU8, {1})},
                                                 {"half", ConstTensorView(h.data(), DType::kBF16, {3, 1})},
                                                 {"full", ConstTensorView(f.data(), DType::kF32, {2, 3})},
                                                 {"ids", ConstTensorView(i.data(), DType::kI32, {2})}},
                                                {{"format", "scd"}});
  ASSERT_TRUE(written.ok()) << written;
  const auto file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->path(), path_);
  EXPECT_EQ((*file)->tensors().size(), 4U);
  EXPECT_EQ((*file)->metadata().at("format"), "scd");
  const auto full = (*file)->Get("full", DType::kF32, {2, 3});
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_TRUE(std::equal(f.begin(), f.end(), full->as<float>()));
  const auto half = (*file)->Get("half", DType::kBF16, {3, 1});
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_TRUE(std::equal(h.begin(), h.end(), half->as<std::uint16_t>()));
  EXPECT_EQ((*file)->Get("ids")->as<std::int32_t>()[0], -1);
  EXPECT_EQ((*file)->Get("bytes")->as<std::uint8_t>()[0], 1);
}

TEST_F(SafetensorsTest, GetNamesFileTensorAndDifference) {
  const std::vector<float> f = {1, 2};
  ASSERT_TRUE(WriteSafetensors(path_, {{"w", ConstTensorView(f.data(), DType::kF32, {2})}}).ok());
  const auto file = SafetensorsFile::Open(path_).value();
  EXPECT_EQ(file->Get("v").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(file->Get("v").status().message(), path_ + ": v: no such tensor");
  EXPECT_EQ(file->Get("w", DType::kBF16, {2, 1}).status().message(),
            path_ + ": w: expected bf16 [2, 1], got f32 [2]");
}

TEST_F(SafetensorsTest, WriterRefusesWhatItsReaderWould) {
  const std::vector<float> f = {1, 2, 3, 4};
  const ConstTensorView view(f.data(), DType::kF32, {2, 2});
  EXPECT_FALSE(WriteSafetensors(path_, {{"w", view}, {"w", view}}).ok());
  EXPECT_FALSE(WriteSafetensors(path_, {{"__metadata__", view}}).ok());
  EXPECT_FALSE(WriteSafetensors(path_, {{"w", view.columns(0, 1)}}).ok());
  EXPECT_FALSE(WriteSafetensors(path_, {{"w", ConstTensorView()}}).ok());
  EXPECT_FALSE(WriteSafetensors(path_, {{"w\xff", view}}).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(WriteSafetensors(dir_.File("no/folder"), {{"w", view}}).code(), absl::StatusCode::kNotFound);
}

TEST_F(SafetensorsTest, NoTensorsIsValidButNoBytesIsNot) {
  EXPECT_TRUE(OpenBytes(Safetensors("{}", "")).ok());
  ASSERT_TRUE(WriteSafetensors(path_, {}).ok());
  EXPECT_TRUE(SafetensorsFile::Open(path_).value()->tensors().empty());
  EXPECT_THAT(std::string(OpenBytes("").message()), HasSubstr("too few"));
}

TEST_F(SafetensorsTest, UnalignedTensorsAreReadThroughACopy) {
  const std::string header = R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, )"
                             R"("b": {"dtype": "F32", "shape": [1], "data_offsets": [1, 5]}})";
  const float value = 2.5F;
  std::string data(1, '\7');
  data.append(reinterpret_cast<const char*>(&value), 4);
  for (int pad = 0; pad < 4; ++pad) {
    testing::WriteFile(path_, Safetensors(header + std::string(pad, ' '), data));
    const auto file = SafetensorsFile::Open(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(*(*file)->Get("b")->as<float>(), value);
  }
}

TEST_F(SafetensorsTest, RefusesWithTheTensorAndTheReason) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"w": {"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" + offsets +
           "}}";
  };
  const auto expect_refused = [&](const std::string& header, const std::string& data,
                                  const std::string& what) {
    const absl::Status status = OpenBytes(Safetensors(header, data));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << header;
    EXPECT_THAT(std::string(status.message()), AllOf(StartsWith(path_), HasSubstr(what))) << header;
  };
  const std::string four(4, '\0');
  EXPECT_TRUE(OpenBytes(Safetensors(entry("F32", "[1]", "[0, 4]"), four)).ok());
  EXPECT_TRUE(OpenBytes(Safetensors(entry("F32", "[]", "[0, 4]"), four)).ok());
  expect_refused(entry("F32", "[0]", "[0, 0]"), "", "w: shape: a dimension is zero");
  expect_refused(entry("F32", "[-1]", "[0, 4]"), four, "w: shape: sizes are integers");
  expect_refused(entry("F32", "[1.0]", "[0, 4]"), four, "w: shape: sizes are integers");
  expect_refused(entry("F32", "[1, 1, 1, 1, 1]", "[0, 4]"), four, "w: shape: has 5 dimensions");
  expect_refused(entry("F32", "[4294967296, 4294967296, 4]", "[0, 4]"), four, "overflows");
  expect_refused(entry("F64", "[1]", "[0, 4]"), four, "w: dtype: \"F64\" is not supported");
  expect_refused(entry("F32", "[1]", "[0, 5]"), four, "is outside the 4 bytes");
  expect_refused(entry("F32", "[1]", "[4, 0]"), four, "is outside");
  expect_refused(entry("F32", "[1]", "[0, 3]"), "abc", "has 3 bytes, not what F32 [1] takes");
  expect_refused(entry("F32", "[1]", "[0]"), four, "w: data_offsets: expected two integers");
  expect_refused(entry("F32", "[1]", "[0, 4]"), four + "x", "has 1 bytes after the last tensor");
  expect_refused(R"({"w": 1})", "", "w: expected a JSON object");
  expect_refused(R"([])", "", "header: expected a JSON object");
  expect_refused(R"({"__metadata__": {"a": 1}})", "", "__metadata__: a: expected a string");
}

TEST_F(SafetensorsTest, HostileFilesAreRefusedByName) {
  SCD_SHARED_OR_SKIP(folder, "cases/safetensors");
  const std::map<std::string, std::string> expected = {
      {"deep_nesting", "nested deeper"},
      {"empty", "too few"},
      {"extent_disagrees_with_shape", "w: data_offsets: has 64 bytes, not what F32 [4, 5] takes"},
      {"header_length_huge", "truncated"},
      {"header_longer_than_file", "truncated"},
      {"hole_between_tensors", "b: data_offsets: leaves a hole of 16 bytes"},
      {"negative_offsets", "w: data_offsets: expected two integers of at least 0"},
      {"not_json", "header: not valid JSON"},
      {"overlapping", "b: data_offsets: overlaps"},
      {"shape_product_overflows", "w: shape: the number of elements overflows"},
      {"truncated", "w: data_offsets: [0, 64) is outside the 40 bytes"},
      {"unknown_dtype", "w: dtype: \"F7\" is not supported"},
  };
  std::size_t seen = 0;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    const std::string path = item.path().string();
    const auto wanted = expected.find(item.path().stem().string());
    ASSERT_NE(wanted, expected.end()) << path;
    const absl::Status status = SafetensorsFile::Open(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), AllOf(StartsWith(path), HasSubstr(wanted->second)));
    ++seen;
  }
  EXPECT_EQ(seen, expected.size());
}

// The same files with the one fault mended.
TEST_F(SafetensorsTest, UnbrokenNeighboursOfTheHostileFilesLoad) {
  const auto entry = [](const std::string& shape, int begin, int end) {
    return R"({"dtype": "F32", "shape": )" + shape + R"(, "data_offsets": [)" + std::to_string(begin) + ", " +
           std::to_string(end) + "]}";
  };
  EXPECT_TRUE(OpenBytes(Safetensors(R"({"w": )" + entry("[4, 4]", 0, 64) + "}", std::string(64, '\0'))).ok());
  EXPECT_TRUE(OpenBytes(Safetensors(R"({"a": )" + entry("[4, 4]", 0, 64) + R"(, "b": )" +
                                        entry("[4, 4]", 64, 128) + "}",
                                    std::string(128, '\0')))
                  .ok());
}

// Truncations at every length and random byte changes: an error or a sound result, never a crash.
TEST_F(SafetensorsTest, SurvivesDamage) {
  const std::vector<float> f = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint16_t> h = {7, 8, 9};
  ASSERT_TRUE(WriteSafetensors(path_,
                               {{"f", ConstTensorView(f.data(), DType::kF32, {2, 3})},
                                {"h", ConstTensorView(h.data(), DType::kF16, {3})}},
                               {{"k", "v"}})
                  .ok());
  const std::string whole = testing::ReadFile(path_);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(OpenBytes(whole.substr(0, size)).ok()) << size;

  std::mt19937 random(20240607);
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string damaged = whole;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    testing::WriteFile(path_, damaged);
    const auto file = SafetensorsFile::Open(path_);
    if (!file.ok()) {
      ++refused;
      continue;
    }
    for (const auto& [name, view] : (*file)->tensors()) {
      volatile std::uint8_t sum = 0;
      for (std::size_t i = 0; i < view.num_elements() * DTypeBytes(view.dtype()); ++i) {
        sum = sum + static_cast<const std::uint8_t*>(view.data())[i];
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace scd
