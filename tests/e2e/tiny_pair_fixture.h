// A test on both daemons with a tiny pair, started before it and ended after it.
#ifndef SCD_TESTS_E2E_TINY_PAIR_FIXTURE_H_
#define SCD_TESTS_E2E_TINY_PAIR_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/daemon_pair.h"
#include "tests/support/temp_dir.h"

namespace scd::testing {

class TinyPairFixture : public ::testing::Test {
 protected:
  // consumer_settings: further "a.b=c".
  explicit TinyPairFixture(std::vector<std::string> consumer_settings = {})
      : consumer_settings_(std::move(consumer_settings)) {}

  // What a test changes about the pair before it starts.
  virtual void Prepare(PairFiles& /*files*/) {}

  void SetUp() override {
    auto files = MakeTinyPair(dir_.path());
    ASSERT_TRUE(files.ok()) << files.status();
    files->consumer_settings.insert(files->consumer_settings.end(), consumer_settings_.begin(),
                                    consumer_settings_.end());
    Prepare(*files);
    auto pair = DaemonPair::Start(*files);
    ASSERT_TRUE(pair.ok()) << pair.status();
    pair_ = *std::move(pair);
  }

  TempDir dir_;
  std::unique_ptr<DaemonPair> pair_;

 private:
  const std::vector<std::string> consumer_settings_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_E2E_TINY_PAIR_FIXTURE_H_
