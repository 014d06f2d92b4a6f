#include "common/bundle/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "common/bundle/bundle_layout.h"
#include "common/bundle/bundle_writer.h"
#include "common/config/entropy_tables.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

using ::testing::AllOf;
using testing::BundleTensorValues;
using ::testing::HasSubstr;

class BundleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto digest = testing::WriteTinyBundle(folder_, testing::TinyConfig(), base_, expert_);
    ASSERT_TRUE(digest.ok()) << digest.status();
    digest_ = *digest;
  }

  // Writes files that need not agree with each other, as no writer would. A manifest that holds for whatever
  // bytes the tensors have.
  void WriteUnchecked(BundleManifest manifest, const std::string& tensors) {
    testing::WriteFile(folder_ + "/tensors.safetensors", tensors);
    manifest.tensors_digest =
        Bundle::TensorsDigest({reinterpret_cast<const std::byte*>(tensors.data()), tensors.size()});
    testing::WriteFile(folder_ + "/manifest.json", ManifestToJson(manifest));
  }

  void WriteUnchecked(const BundleManifest& manifest, const std::vector<NamedTensor>& tensors) {
    const std::string path = dir_.File("loose.safetensors");
    const absl::Status written = WriteSafetensors(path, tensors);
    ASSERT_TRUE(written.ok()) << written;
    WriteUnchecked(manifest, testing::ReadFile(path));
  }

  void ExpectRefused(absl::StatusCode code, const std::string& message) {
    const absl::Status status = Bundle::Open(folder_).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(folder_), HasSubstr(message)));
  }

  const testing::TempDir dir_;
  const std::string folder_ = dir_.File("bundle");
  const BundleModel base_ = testing::MadeUpModel("base");
  const BundleModel expert_ = testing::MadeUpModel("expert");
  const BundleManifest manifest_ = testing::TinyManifest(testing::TinyConfig(), base_, expert_);
  BundleTensorValues values_{manifest_, false, 1};
  Digest digest_;
};

TEST_F(BundleTest, OpensWhatWasWritten) {
  const auto bundle = Bundle::Open(folder_);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ((*bundle)->digest(), digest_);
  EXPECT_EQ((*bundle)->folder(), folder_);
  EXPECT_EQ((*bundle)->manifest().consumer.digest, expert_.digest);
}

TEST_F(BundleTest, TranslatorsAreTheWrittenValues) {
  const auto bundle = Bundle::Open(folder_);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  const auto at = [](const ConstTensorView& view, std::int64_t i, std::int64_t j) {
    return view.row<float>(i)[j];
  };
  for (const auto& [kind, rank] : {std::pair{CodeKind::kK, 6}, {CodeKind::kV, 3}}) {
    const auto reuse = (*bundle)->Reuse(3, kind, rank);
    ASSERT_TRUE(reuse.ok()) << reuse.status();
    const auto& encoder = values_.tensors().at(TranslatorTensorName(3, kind, "encoder"));
    const auto& decoder = values_.tensors().at(TranslatorTensorName(3, kind, "decoder"));
    const auto fitted = encoder.shape[0];
    EXPECT_EQ(reuse->encoder.shape(), (Shape{rank, 16}));
    EXPECT_EQ(reuse->encoder_bias.shape(), (Shape{rank}));
    EXPECT_EQ(reuse->decoder.shape(), (Shape{16, rank}));
    EXPECT_EQ(reuse->decoder_bias.shape(), (Shape{16}));
    for (std::int64_t r = 0; r < rank; ++r) {
      for (std::int64_t c = 0; c < 16; ++c) {
        EXPECT_EQ(at(reuse->encoder, r, c), encoder.values[static_cast<std::size_t>(r * 16 + c)]);
        EXPECT_EQ(at(reuse->decoder, c, r), decoder.values[static_cast<std::size_t>(c * fitted + r)]);
      }
    }
  }
  const auto patch = (*bundle)->Patch(2, 8);
  ASSERT_TRUE(patch.ok()) << patch.status();
  EXPECT_EQ(patch->encoder.shape(), (Shape{8, 64}));
  EXPECT_EQ(patch->encoder_bias.shape(), (Shape{8}));
  EXPECT_EQ(patch->decoder.shape(), (Shape{64, 8}));
  EXPECT_EQ(patch->decoder.stride(0), 16);
  EXPECT_EQ(patch->decoder_bias.shape(), (Shape{64}));
  EXPECT_EQ(patch->mlp_in.shape(), (Shape{12, 8}));
  EXPECT_EQ(patch->mlp_in_bias.shape(), (Shape{12}));
  EXPECT_EQ(patch->mlp_out.shape(), (Shape{64, 12}));
  EXPECT_EQ(patch->mlp_out_bias.shape(), (Shape{64}));
  EXPECT_EQ(at(patch->mlp_out, 63, 11), values_.tensors().at("layers.2.h.8.mlp_out").values.back());
}

TEST_F(BundleTest, FusedTranslatorsAndTablesAreTheWrittenValues) {
  const auto bundle = Bundle::Open(folder_);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  const auto fused = (*bundle)->Fused(3);
  ASSERT_TRUE(fused.ok()) << fused.status();
  for (const auto& [view, part, shape] : {std::tuple{fused->encoder, "encoder", Shape{10, 64}},
                                          {fused->encoder_bias, "encoder_bias", Shape{10}},
                                          {fused->decoder, "decoder", Shape{32, 10}},
                                          {fused->decoder_bias, "decoder_bias", Shape{32}}}) {
    EXPECT_EQ(view.shape(), shape) << part;
    const auto& written = values_.tensors().at(std::string("layers.3.kv.") + part).values;
    EXPECT_EQ(std::vector<float>(view.as<float>(), view.as<float>() + view.num_elements()), written) << part;
  }

  const auto tables = (*bundle)->Entropy(1, CodeKind::kH, 7, 1);
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_EQ(tables->rank(), 7);
  const auto& steps = values_.tensors().at("layers.1.h.rate.1.steps").values;
  const auto& frequencies = values_.tensors().at("layers.1.h.rate.1.frequencies").integers;
  EXPECT_TRUE(std::equal(tables->steps.begin(), tables->steps.end(), steps.begin()));
  ASSERT_EQ(tables->frequencies.size(), static_cast<std::size_t>(7 * kEntropySymbols));
  EXPECT_TRUE(std::equal(tables->frequencies.begin(), tables->frequencies.end(), frequencies.begin()));
  EXPECT_NE((*bundle)->Entropy(1, CodeKind::kH, 7, 0)->steps[0], steps[0]);
}

TEST_F(BundleTest, AGroupsBiasAndTablesAreThoseOfItsLastLayer) {
  testing::TinyBundleOptions options;
  options.fused = {.rank = 20, .group = 3};
  ASSERT_TRUE(testing::WriteTinyBundle(folder_, testing::TinyConfig(), base_, expert_, options).ok());
  const auto bundle = Bundle::Open(folder_);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  const auto first = (*bundle)->Fused(0), last = (*bundle)->Fused(2), alone = (*bundle)->Fused(3);
  ASSERT_TRUE(first.ok() && last.ok() && alone.ok());
  EXPECT_EQ(first->encoder_bias.data(), last->encoder_bias.data());
  EXPECT_NE(first->encoder.data(), last->encoder.data());
  EXPECT_NE(alone->encoder_bias.data(), last->encoder_bias.data());
  EXPECT_EQ((*bundle)->Entropy(0, CodeKind::kKV, 20, 0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE((*bundle)->Entropy(2, CodeKind::kKV, 20, 0).ok());
  EXPECT_TRUE((*bundle)->Entropy(3, CodeKind::kKV, 20, 0).ok());
}

TEST_F(BundleTest, WhatWasNotFusedOrHasNoTablesIsNotHandedOut) {
  const auto bundle = Bundle::Open(folder_);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ((*bundle)->Fused(-1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*bundle)->Fused(4).status().code(), absl::StatusCode::kNotFound);
  for (const auto& [layer, kind, rank, point] : {std::tuple{0, CodeKind::kH, 8, 0},
                                                 {1, CodeKind::kH, 17, 0},
                                                 {0, CodeKind::kK, 7, 0},
                                                 {0, CodeKind::kK, 0, 0},
                                                 {0, CodeKind::kV, 8, 2},
                                                 {0, CodeKind::kV, 8, -1},
                                                 {0, CodeKind::kKV, 11, 0},
                                                 {0, CodeKind::kResidual, 1, 0},
                                                 {4, CodeKind::kK, 6, 0},
                                                 {-1, CodeKind::kK, 6, 0}}) {
    const absl::Status status = (*bundle)->Entropy(layer, kind, rank, point).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("no entropy tables for"));
  }
}

TEST_F(BundleTest, WhatWasNotFittedIsNotHandedOut) {
  const auto bundle = Bundle::Open(folder_);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  for (const auto& [layer, kind, rank] : {std::tuple{4, CodeKind::kK, 1},
                                          {-1, CodeKind::kK, 1},
                                          {0, CodeKind::kK, 0},
                                          {0, CodeKind::kK, 7},
                                          {0, CodeKind::kV, 9},
                                          {0, CodeKind::kH, 1}}) {
    EXPECT_EQ((*bundle)->Reuse(layer, kind, rank).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ((*bundle)->Patch(0, 8).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*bundle)->Patch(1, 9).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(BundleTest, OtherModelsAreRefusedWithBothDigests) {
  const auto bundle = Bundle::Open(folder_);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_TRUE((*bundle)->CheckProducer(base_.digest, base_.tokenizer_digest).ok());
  EXPECT_TRUE((*bundle)->CheckConsumer(expert_.digest, expert_.tokenizer_digest).ok());
  const auto expect = [&](const absl::Status& status, const std::string& what, const Digest& expected,
                          const Digest& given) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(folder_), HasSubstr("fitted for another " + what),
                      HasSubstr(expected.ToHex()), HasSubstr(given.ToHex())));
  };
  const BundleModel other = testing::MadeUpModel("other");
  expect((*bundle)->CheckProducer(other.digest, base_.tokenizer_digest), "producer model", base_.digest,
         other.digest);
  expect((*bundle)->CheckProducer(base_.digest, other.tokenizer_digest), "producer tokenizer",
         base_.tokenizer_digest, other.tokenizer_digest);
  expect((*bundle)->CheckConsumer(other.digest, expert_.tokenizer_digest), "consumer model", expert_.digest,
         other.digest);
  expect((*bundle)->CheckConsumer(expert_.digest, other.tokenizer_digest), "consumer tokenizer",
         expert_.tokenizer_digest, other.tokenizer_digest);
}

TEST_F(BundleTest, ChangedBytesOfTheTensorsAreSeen) {
  const std::string path = folder_ + "/tensors.safetensors";
  const std::string good = testing::ReadFile(path);
  for (std::size_t at = 0; at < good.size(); at += 251) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    testing::WriteFile(path, changed);
    EXPECT_FALSE(Bundle::Open(folder_).ok()) << at;
  }
  std::string changed = good;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  testing::WriteFile(path, changed);
  ExpectRefused(absl::StatusCode::kDataLoss, "tensors.safetensors: changed since it was written");
}

TEST_F(BundleTest, TruncatedOrMissingFilesAreRefused) {
  const std::string path = folder_ + "/tensors.safetensors";
  const std::string good = testing::ReadFile(path);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{100}, good.size() / 2, good.size() - 1}) {
    testing::WriteFile(path, good.substr(0, size));
    ExpectRefused(absl::StatusCode::kInvalidArgument, "tensors.safetensors: ");
  }
  std::filesystem::remove(path);
  ExpectRefused(absl::StatusCode::kNotFound, "tensors.safetensors");
  const std::string manifest = testing::ReadFile(folder_ + "/manifest.json");
  testing::WriteFile(folder_ + "/manifest.json", manifest.substr(0, manifest.size() / 2));
  ExpectRefused(absl::StatusCode::kInvalidArgument, "manifest.json: not valid JSON");
  std::filesystem::remove(folder_ + "/manifest.json");
  ExpectRefused(absl::StatusCode::kNotFound, "manifest.json");
}

TEST_F(BundleTest, TheDigestCoversTheManifest) {
  BundleManifest changed = manifest_;
  changed.native_tail = 3;
  WriteUnchecked(changed, values_.Named());
  const auto bundle = Bundle::Open(folder_);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_NE((*bundle)->digest(), digest_);
}

TEST_F(BundleTest, EveryTensorIsNeeded) {
  for (const BundleTensor& tensor : BundleTensors(manifest_)) {
    BundleTensorValues values(manifest_, false, 1);
    ASSERT_EQ(values.tensors().erase(tensor.name), 1U);
    WriteUnchecked(manifest_, values.Named());
    ExpectRefused(absl::StatusCode::kNotFound, tensor.name + ": no such tensor");
  }
}

TEST_F(BundleTest, SurplusTensorsAreRefused) {
  for (const char* name : {"surplus", "layers.4.k.encoder", "layers.0.h.encoder", "layers.1.h.9.mlp_in"}) {
    BundleTensorValues values(manifest_, false, 1);
    values.tensors()[name] = {Shape{2}, {1, 2}};
    WriteUnchecked(manifest_, values.Named());
    ExpectRefused(absl::StatusCode::kInvalidArgument,
                  std::string(name) + ": the manifest knows no such tensor");
  }
}

TEST_F(BundleTest, EveryTensorHasItsShapeAndType) {
  for (const BundleTensor& tensor : BundleTensors(manifest_)) {
    BundleTensorValues values(manifest_, false, 1);
    values.tensors().at(tensor.name) = {Shape{3, 5}, std::vector<float>(15)};
    WriteUnchecked(manifest_, values.Named());
    ExpectRefused(
        absl::StatusCode::kInvalidArgument,
        tensor.name + ": expected " + std::string(DTypeName(tensor.dtype)) + " " + tensor.shape.ToString());
  }
  std::vector<NamedTensor> named = values_.Named();
  const std::vector<std::uint16_t> half(1024);
  named[0].view = ConstTensorView(half.data(), DType::kBF16, named[0].view.shape());
  WriteUnchecked(manifest_, named);
  ExpectRefused(absl::StatusCode::kInvalidArgument, named[0].name + ": expected f32");
}

TEST_F(BundleTest, NumbersThatAreNotFiniteAreRefused) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    BundleTensorValues values(manifest_, false, 1);
    values.tensors().at("layers.1.h.16.mlp_out").values.back() = bad;
    WriteUnchecked(manifest_, values.Named());
    ExpectRefused(absl::StatusCode::kInvalidArgument,
                  "layers.1.h.16.mlp_out: holds a number that is not finite");
  }
}

TEST_F(BundleTest, TablesThatCannotBeAreRefused) {
  const auto expect = [&](auto change, const std::string& message) {
    BundleTensorValues values(manifest_, false, 1);
    change(values.tensors().at("layers.2.kv.rate.1.steps").values,
           values.tensors().at("layers.2.kv.rate.1.frequencies").integers);
    WriteUnchecked(manifest_, values.Named());
    ExpectRefused(absl::StatusCode::kInvalidArgument, message);
  };
  using Steps = std::vector<float>;
  using Frequencies = std::vector<std::int32_t>;
  constexpr auto kRow = static_cast<std::size_t>(kEntropySymbols);
  const std::string where = "layers.2.kv.rate.1.steps and its frequencies: ";
  expect([](Steps& s, Frequencies&) { s[3] = -s[3]; }, where);
  expect([](Steps& s, Frequencies&) { s[3] = 1e-30f; }, where);
  expect([](Steps& s, Frequencies&) { s[3] = 1e30f; }, where);
  expect([](Steps& s, Frequencies&) { s[3] = 0; }, where);     // with frequencies of a column that is sent
  expect([](Steps& s, Frequencies&) { s[4] = s[3]; }, where);  // without
  expect([](Steps&, Frequencies& f) { ++f[3 * kRow + 9]; }, where);
  expect([](Steps&, Frequencies& f) { f[3 * kRow + 9] = -1; }, where);
  expect([](Steps&, Frequencies& f) { f[3 * kRow + 9] = INT32_MAX; }, where);
  expect(
      [](Steps&, Frequencies& f) {
        f[3 * kRow] += f[3 * kRow + kEscapeSymbol];
        f[3 * kRow + kEscapeSymbol] = 0;
      },
      where);
  expect([](Steps&, Frequencies& f) { std::fill(f.begin(), f.end(), INT32_MAX); }, where);
  expect([](Steps& s, Frequencies&) { s[0] = std::numeric_limits<float>::quiet_NaN(); },
         "layers.2.kv.rate.1.steps: holds a number that is not finite");
}

TEST_F(BundleTest, HostileTensorFilesAreRefused) {
  SCD_SHARED_OR_SKIP(cases, "cases/safetensors");
  int num_cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cases)) {
    // With the digest of these very bytes, so that the file itself must be found bad.
    WriteUnchecked(manifest_, testing::ReadFile(entry.path().string()));
    const absl::Status status = Bundle::Open(folder_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << entry.path() << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + "/tensors.safetensors: "));
    ++num_cases;
  }
  EXPECT_GE(num_cases, 12);
}

}  // namespace
}  // namespace scd
