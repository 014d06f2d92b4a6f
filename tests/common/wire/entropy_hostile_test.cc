// Payloads of the entropy codec as a broken or hostile peer could send them: they are refused, or they are
// the code of some numbers, which are then finite.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "common/wire/entropy_coder.h"
#include "tests/common/wire/entropy_samples.h"

namespace scd {
namespace {

using testing::LatentSource;
using testing::OwnedTables;

constexpr std::int64_t kTokens = 40;

class EntropyHostileTest : public ::testing::Test {
 protected:
  EntropyHostileTest() : source_(9, 30.0, 0.4, 21) {
    coder_ = *EntropyCoder::Create(source_.tables().view());
    payload_ = *coder_->Encode(source_.Rows(kTokens).data(), kTokens);
  }

  std::size_t Below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  // Whether `payload` is accepted, as the code of numbers whose payload it is.
  bool Accepts(const EntropyCoder& coder, const std::string& payload) {
    std::vector<float> out(static_cast<std::size_t>(kTokens * coder.rank()));
    const absl::Status decoded = coder.Decode(payload, kTokens, 0, kTokens, out.data());
    if (!decoded.ok()) {
      EXPECT_EQ(decoded.code(), absl::StatusCode::kDataLoss);
      return false;
    }
    for (const float number : out) EXPECT_TRUE(std::isfinite(number));
    const auto again = coder.Encode(out.data(), kTokens);
    EXPECT_TRUE(again.ok() && *again == payload);
    return true;
  }

  LatentSource source_;
  std::unique_ptr<EntropyCoder> coder_;
  std::string payload_;
  std::mt19937 random_{9};
};

TEST_F(EntropyHostileTest, EveryFlippedBitIsFound) {
  ASSERT_TRUE(Accepts(*coder_, payload_));
  for (std::size_t bit = 0; bit < 8 * payload_.size(); ++bit) {
    std::string bad = payload_;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    // In an escape's bytes another number can stand; nowhere else.
    if (!Accepts(*coder_, bad)) continue;
    std::vector<float> good_rows(9 * kTokens), bad_rows(9 * kTokens);
    ASSERT_TRUE(coder_->Decode(payload_, kTokens, 0, kTokens, good_rows.data()).ok());
    ASSERT_TRUE(coder_->Decode(bad, kTokens, 0, kTokens, bad_rows.data()).ok());
    int num_changed = 0;
    for (std::size_t i = 0; i < good_rows.size(); ++i) num_changed += good_rows[i] != bad_rows[i];
    EXPECT_EQ(num_changed, 1) << "bit " << bit;
  }
}

TEST_F(EntropyHostileTest, DamageIsRefusedOrHarmless) {
  int num_accepted = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string bad = payload_;
    for (std::size_t edits = 1 + Below(3); edits > 0 && !bad.empty(); --edits) {
      const std::size_t at = Below(bad.size());
      switch (Below(4)) {
        case 0:
          bad[at] = static_cast<char>(Below(256));
          break;
        case 1:
          bad.erase(at, 1 + Below(4));
          break;
        case 2:
          bad.insert(at, 1, static_cast<char>(Below(256)));
          break;
        default:
          bad[at] = static_cast<char>(bad[at] ^ (1 << Below(8)));
      }
    }
    num_accepted += bad != payload_ && Accepts(*coder_, bad);
  }
  EXPECT_LT(num_accepted, 1500);  // changed escapes
}

// The lengths agree, so every byte reaches the granules' decoder.
TEST_F(EntropyHostileTest, GranulesOfAnyBytesAreRefused) {
  int num_accepted = 0;
  for (int round = 0; round < 30000; ++round) {
    std::string bad;
    for (int granule = 0; granule < 2; ++granule) {
      const std::size_t size = 16 + Below(Below(2) == 0 ? 8 : 600);
      bad += {static_cast<char>(size), static_cast<char>(size >> 8), '\0'};
      for (std::size_t i = 0; i < size; ++i) {
        bad.push_back(static_cast<char>(Below(4) == 0 ? 255 * Below(2) : Below(256)));
      }
    }
    num_accepted += Accepts(*coder_, bad);
  }
  EXPECT_EQ(num_accepted, 0);
}

TEST_F(EntropyHostileTest, PartsOfGranulesAreRefused) {
  const auto granules = *EntropyGranules(payload_, kTokens);
  const std::string last = payload_.substr(granules[1]);
  for (std::size_t body = 16; body + 3 < last.size(); ++body) {
    for (const bool cut_front : {false, true}) {
      std::string bad = payload_.substr(0, granules[1]);
      bad += {static_cast<char>(body), static_cast<char>(body >> 8), '\0'};
      bad += cut_front ? last.substr(last.size() - body) : last.substr(3, body);
      EXPECT_FALSE(Accepts(*coder_, bad)) << body;
    }
  }
  std::vector<float> out(9 * 64);
  // Another number of tokens in the last granule.
  for (std::int64_t tokens = 33; tokens <= 64; ++tokens) {
    if (tokens == kTokens) continue;
    EXPECT_EQ(coder_->Decode(payload_, tokens, 0, tokens, out.data()).code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(EntropyHostileTest, OtherTablesGiveNoMoreThanOtherNumbers) {
  int num_accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    OwnedTables other;
    for (std::size_t columns = 1 + Below(12); columns > 0; --columns) {
      std::vector<std::int64_t> counts(static_cast<std::size_t>(kEntropySymbols), 0);
      for (std::size_t symbols = Below(20); symbols > 0; --symbols) {
        counts[Below(counts.size())] = static_cast<std::int64_t>(Below(1000));
      }
      if (Below(5) == 0) {
        other.Add(0.0f, std::vector<std::int32_t>(static_cast<std::size_t>(kEntropySymbols), 0));
      } else {
        other.Add(kLargestEntropyStep, FitFrequencies(counts));
      }
    }
    num_accepted += Accepts(**EntropyCoder::Create(other.view()), payload_);
  }
  EXPECT_EQ(num_accepted, 0);
}

}  // namespace
}  // namespace scd
