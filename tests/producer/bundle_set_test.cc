#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "producer/encoder_cache.h"
#include "tests/producer/producer_rig.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BundleSetTest : public ::testing::Test {
 protected:
  absl::Status Open(const std::vector<std::string>& folders) {
    const Model& model = tiny_.model();
    return BundleSet::Open(folders, model.config, model.digest, model.tokenizer->digest()).status();
  }
  std::string Write(const std::string& name, const BundleModel& producer, const ModelConfig& config) {
    const std::string folder = dir_.File(name);
    EXPECT_TRUE(testing::WriteTinyBundle(folder, config, producer, testing::MadeUpModel("expert")).ok());
    return folder;
  }

  testing::TinyProducer& tiny_ = testing::SharedTinyProducer();
  const testing::TempDir dir_;
};

TEST_F(BundleSetTest, FindsByDigest) {
  for (std::size_t i : {0u, 1u}) {
    const auto found = tiny_.bundles().Find(tiny_.bundle(i).digest());
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, &tiny_.bundle(i));
  }
  const auto missing = tiny_.bundles().Find(DigestBuilder("x").Finish());
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.status().message()), AllOf(HasSubstr(tiny_.bundle(0).digest().ToHex()),
                                                             HasSubstr(tiny_.bundle(1).digest().ToHex())));
}

TEST_F(BundleSetTest, RefusesAnotherModelTokenizerOrShapeWithItsFolder) {
  const Model& model = tiny_.model();
  const BundleModel right = {"tiny", model.digest, model.tokenizer->digest()};
  EXPECT_TRUE(Open({Write("right", right, model.config)}).ok());

  BundleModel other = right;
  other.digest = DigestBuilder("other").Finish();
  const std::string other_model = Write("other_model", other, model.config);
  other = right;
  other.tokenizer_digest = DigestBuilder("other").Finish();
  const std::string other_tokenizer = Write("other_tokenizer", other, model.config);
  ModelConfig config = model.config;
  config.num_layers += 1;
  const std::string other_shape = Write("other_shape", right, config);
  for (const std::string& folder : {other_model, other_tokenizer, other_shape}) {
    const absl::Status status = Open({folder});
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder));
  }
}

TEST_F(BundleSetTest, RefusesWhatIsNotThereOrThereTwice) {
  const absl::Status missing = Open({dir_.File("none")});
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr(dir_.File("none")));
  const absl::Status twice = Open({tiny_.folder(0), tiny_.folder(1), tiny_.folder(0)});
  EXPECT_EQ(twice.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(twice.message()), HasSubstr("is the same bundle as " + tiny_.folder(0)));
}

TEST_F(BundleSetTest, EncodersAreKeptUpToTheirNumber) {
  EncoderCache cache(tiny_.transformer().rope(), tiny_.backend(), 16, 2);
  const auto get = [&](std::size_t bundle, Codec codec) {
    auto ready = cache.Get(tiny_.bundle(bundle), tiny_.Plan(codec));
    EXPECT_TRUE(ready.ok()) << ready.status();
    return ready->encoder;
  };
  const auto first = get(0, Codec::kBF16);
  LayerPlan same_codes = tiny_.Plan();
  same_codes.native_tail += 5;
  EXPECT_EQ(cache.Get(tiny_.bundle(0), same_codes)->encoder, first);
  EXPECT_NE(get(1, Codec::kBF16), first);
  EXPECT_EQ(get(0, Codec::kBF16), first);
  EXPECT_NE(get(0, Codec::kF32), first);  // the other bundle's goes
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(get(0, Codec::kBF16), first);
}

}  // namespace
}  // namespace scd
