#include "common/model/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>

#include "tests/support/gguf_builder.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::GgufBuilder;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class GgufFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<GgufFile>> OpenBytes(const std::string& bytes) {
    testing::WriteFile(path_, bytes);
    return GgufFile::Open(path_);
  }
  void ExpectRefused(const std::string& bytes, const std::string& what) {
    const absl::Status status = OpenBytes(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(StartsWith(path_), HasSubstr(what)));
  }

  testing::TempDir dir_;
  const std::string path_ = dir_.File("t.gguf");
};

TEST_F(GgufFileTest, ReadsTypedValues) {
  for (const std::uint32_t version : {2U, 3U}) {
    const auto opened = OpenBytes(GgufBuilder()
                                      .String("text", "caf\xc3\xa9")
                                      .U32("count", 7)
                                      .Value("i64", 11, GgufBuilder::Raw(std::int64_t{-3}))
                                      .Value("u64", 10, GgufBuilder::Raw(std::uint64_t{1} << 63))
                                      .F32("theta", 2.5F)
                                      .Bool("yes", 1)
                                      .Bool("odd", 2)
                                      .Array<std::string>("words", 8, {"a", "", "bc"})
                                      .Array<std::int32_t>("ints", 5, {-1, 2})
                                      .Array<float>("floats", 6, {0.5F})
                                      .Build(version));
    ASSERT_TRUE(opened.ok()) << opened.status();
    const GgufFile& file = **opened;
    EXPECT_EQ(file.String("text").value(), "caf\xc3\xa9");
    EXPECT_EQ(file.Int("count", 1, 7).value(), 7);
    EXPECT_EQ(file.Int("i64", -5, 5).value(), -3);
    EXPECT_EQ(file.Double("theta", 0, 3).value(), 2.5);
    EXPECT_EQ(file.Double("count", 0, 10).value(), 7.0);
    EXPECT_TRUE(file.Bool("yes").value());
    EXPECT_THAT(file.StringArray("words").value(), ElementsAre("a", "", "bc"));
    EXPECT_THAT(file.IntArray("ints").value(), ElementsAre(-1, 2));
    EXPECT_THAT(file.FloatArray("floats").value(), ElementsAre(0.5F));
    EXPECT_THAT(file.FloatArray("ints").value(), ElementsAre(-1.0F, 2.0F));
    EXPECT_TRUE(file.IsArray("ints"));
    EXPECT_FALSE(file.IsArray("count"));
    EXPECT_TRUE(file.Has("count"));
    EXPECT_FALSE(file.Has("nothing"));

    const auto expect_error = [this](const absl::Status& status, const std::string& what) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(status.message(), path_ + ": " + what);
    };
    expect_error(file.Int("count", 8, 9).status(), "count: expected an integer in [8, 9], got 7");
    expect_error(file.Int("text", 0, 9).status(), "text: expected an integer, got string");
    expect_error(file.Int("theta", 0, 9).status(), "theta: expected an integer, got f32");
    expect_error(file.Int("u64", 0, 9).status(), "u64: expected an integer, got u64");
    expect_error(file.Int("ints", 0, 9).status(), "ints: expected a single value, got an array");
    expect_error(file.Int("nothing", 0, 9).status(), "nothing: missing from the metadata");
    expect_error(file.Double("text", 0, 9).status(), "text: expected a number, got string");
    expect_error(file.Bool("odd").status(), "odd: expected a bool (0 or 1), got 2");
    expect_error(file.Bool("count").status(), "count: expected a bool, got u32");
    expect_error(file.String("count").status(), "count: expected a string, got u32");
    expect_error(file.StringArray("ints").status(), "ints: expected an array of strings, got one of i32");
    expect_error(file.IntArray("words").status(), "words: expected an array of integers, got one of string");
    expect_error(file.FloatArray("count").status(), "count: expected an array");
  }
}

TEST_F(GgufFileTest, ReversesDimensions) {
  const auto opened = OpenBytes(GgufBuilder().F32Tensor("a", {2, 3}, 1).F32Tensor("b", {5}, 10).Build());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto a = (*opened)->Tensor("a").value();
  EXPECT_EQ(a.shape, Shape({2, 3}));
  EXPECT_EQ(reinterpret_cast<const float*>(a.data.data())[5], 6.0F);
  const auto b = (*opened)->Tensor("b").value();
  EXPECT_EQ(b.data.size(), 20U);
  EXPECT_EQ(reinterpret_cast<const float*>(b.data.data())[0], 10.0F);
  EXPECT_EQ((*opened)->Tensor("c").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(GgufFileTest, RefusesWhatIsWrong) {
  ExpectRefused(GgufBuilder().U32("a", 1).U32("a", 2).Build(), "a: this key stands twice");
  ExpectRefused(GgufBuilder().F32Tensor("a", {1}, 0).F32Tensor("a", {1}, 0).Build(),
                "a: this tensor stands twice");
  ExpectRefused(GgufBuilder().Value("a", 13, "x").Build(), "a: a value of unknown type 13");
  ExpectRefused(GgufBuilder().Array<std::uint8_t>("a", 99, {1}).Build(), "a: an array of unknown type 99");
  ExpectRefused(GgufBuilder().U32("", 1).Build(), "has 0 bytes");
  ExpectRefused(GgufBuilder().F32Tensor("a", {1, 1, 1, 1, 1}, 0).Build(), "a: has 5 dimensions");
  ExpectRefused(GgufBuilder().Tensor("a", {}, 0, "").Build(), "a: has 0 dimensions");
  ExpectRefused(GgufBuilder().Tensor("a", {std::uint64_t{1} << 40, std::uint64_t{1} << 40}, 0, "").Build(),
                "a: the number of elements overflows");
  ExpectRefused(GgufBuilder().Tensor("a", {4}, 10, "").Build(),
                "a: is stored as q2_k, which is not supported");
  ExpectRefused(GgufBuilder().U32("general.alignment", 48).Build(),
                "general.alignment: expected a power of two");
  ExpectRefused(GgufBuilder().String("general.alignment", "32").Build(),
                "general.alignment: expected an integer");
  EXPECT_EQ(GgufFile::Open(dir_.File("none")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(GgufFileTest, RefusesTensorsThatOverlap) {
  std::string bytes = GgufBuilder().F32Tensor("a", {16}, 0).F32Tensor("b", {16}, 0).Build();
  // b's offset stands after its name, rank, one dimension and type; moved back it lies over a's second half.
  const std::size_t place = bytes.find(GgufBuilder::Text("b")) + 9 + 4 + 8 + 4;
  ASSERT_EQ(bytes[place], 64);
  bytes[place] = 32;
  ExpectRefused(bytes, "b: overlaps another tensor");
  bytes[place] = 33;
  ExpectRefused(bytes, "b: its offset 33 is not a multiple of 32");
}

TEST_F(GgufFileTest, HostileFilesAreRefusedByName) {
  SCD_SHARED_OR_SKIP(folder, "cases/gguf");
  const std::map<std::string, std::string> expected = {
      {"alignment_zero", "general.alignment: expected a power of two"},
      {"array_count_huge", "tokenizer.ggml.tokens"},
      {"nested_arrays", "x: arrays of arrays are not supported"},
      {"only_magic", "the file ends within the version"},
      {"row_not_multiple_of_block",
       "token_embd.weight: a row of 33 is not a whole number of q8_0 blocks of 32"},
      {"string_longer_than_file", "the file ends within the name of metadata value 0 of 1"},
      {"tensor_count_huge", "the file ends within the name of tensor 0"},
      {"tensor_past_end", "token_embd.weight: lies past the end of the file"},
      {"unknown_quantisation", "token_embd.weight: is stored as type 250, which is not supported"},
      {"version_99", "GGUF version 99 is not supported"},
      {"wrong_magic", "not a GGUF file"},
      {"zero_dimension", "a: a dimension is zero"},
  };
  std::size_t seen = 0;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    const std::string path = item.path().string();
    const std::string name = item.path().stem().string();
    if (name == "block_count_is_a_string") continue;  // a sound container; gguf_model_test has it
    const auto wanted = expected.find(name);
    ASSERT_NE(wanted, expected.end()) << path;
    const absl::Status status = GgufFile::Open(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), AllOf(StartsWith(path), HasSubstr(wanted->second)));
    ++seen;
  }
  EXPECT_EQ(seen, expected.size());
}

// Each hostile file with its one fault mended.
TEST_F(GgufFileTest, UnbrokenNeighboursOfTheHostileFilesLoad) {
  const auto llama = [] { return GgufBuilder().String("general.architecture", "llama"); };
  for (const std::string& bytes : {
           llama().Build(),
           llama().U32("general.alignment", 32).Build(),
           llama().Array<std::string>("tokenizer.ggml.tokens", 8, {"a"}).Build(),
           llama().Array<std::int32_t>("x", 5, {1}).Build(),
           llama().Tensor("token_embd.weight", {4, 32}, 8, std::string(4 * 34, '\0')).Build(),
           llama().F32Tensor("token_embd.weight", {64, 64}, 0).Build(),
           llama().F32Tensor("a", {1}, 0).Build(),
       }) {
    EXPECT_TRUE(OpenBytes(bytes).ok());
  }
}

// Truncations at every length and random byte changes: an error or a sound result, never a crash.
TEST_F(GgufFileTest, SurvivesDamage) {
  const std::string whole = GgufBuilder()
                                .String("general.architecture", "llama")
                                .U32("general.alignment", 32)
                                .Array<std::string>("words", 8, {"a", "bc"})
                                .Array<float>("floats", 6, {1, 2})
                                .Tensor("q", {2, 32}, 8, std::string(68, '\1'))
                                .F32Tensor("f", {3, 2}, 1)
                                .Build();
  ASSERT_TRUE(OpenBytes(whole).ok());
  const std::size_t needed = whole.size() - 8;  // the last tensor is followed by 8 bytes of padding
  for (std::size_t size = 0; size < needed; ++size)
    EXPECT_FALSE(OpenBytes(whole.substr(0, size)).ok()) << size;
  std::mt19937 random(20240607);
  int refused = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string damaged = whole;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    const auto opened = OpenBytes(damaged);
    if (!opened.ok()) {
      ++refused;
      continue;
    }
    for (const auto& [name, tensor] : (*opened)->tensors()) {
      std::vector<float> values(static_cast<std::size_t>(tensor.shape.num_elements()));
      DequantiseBlocks(tensor.type, tensor.data.data(),
                       tensor.shape.num_elements() / GgmlBlockElements(tensor.type), values.data());
    }
    for (const char* key : {"general.architecture", "general.alignment", "words", "floats"}) {
      (void)(*opened)->StringArray(key).ok();
      (void)(*opened)->FloatArray(key).ok();
      (void)(*opened)->String(key).ok();
      (void)(*opened)->Double(key, 0, 1).ok();
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace scd
