#include "producer/prefill_turns.h"

#include <vector>

#include "gtest/gtest.h"

namespace scd {
namespace {

// Runs everything to its end, a chunk a turn; returns whose turns they were.
std::vector<std::size_t> TurnsOf(std::vector<std::int64_t> rows_left, std::int64_t chunk) {
  PrefillTurns turns;
  std::vector<std::size_t> names(rows_left.size());
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = i;
  std::vector<std::size_t> order;
  while (!rows_left.empty()) {
    const std::size_t i = turns.Next(rows_left);
    order.push_back(names[i]);
    rows_left[i] -= chunk;
    if (rows_left[i] > 0) continue;
    rows_left.erase(rows_left.begin() + static_cast<std::ptrdiff_t>(i));
    names.erase(names.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return order;
}

TEST(PrefillTurnsTest, AShortPromptWaitsForOneChunkOfALongOne) {
  EXPECT_EQ(TurnsOf({2048, 100}, 256), (std::vector<std::size_t>{0, 1, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(PrefillTurnsTest, TheOldestHasEverySecondTurn) {
  EXPECT_EQ(TurnsOf({8, 2, 2, 2}, 1), (std::vector<std::size_t>{0, 1, 0, 1, 0, 2, 0, 2, 0, 3, 0, 3, 0, 0}));
}

TEST(PrefillTurnsTest, OfEqualsTheOlderRuns) {
  EXPECT_EQ(TurnsOf({2, 2}, 1), (std::vector<std::size_t>{0, 0, 1, 1}));
}

// Who comes while another runs alone has the next turn.
TEST(PrefillTurnsTest, ATurnAloneIsOneOfTheOldest) {
  PrefillTurns turns;
  const std::vector<std::int64_t> alone = {5};
  const std::vector<std::int64_t> both = {5, 1};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(turns.Next(alone), 0u);
  EXPECT_EQ(turns.Next(both), 1u);
  EXPECT_EQ(turns.Next(both), 0u);
}

}  // namespace
}  // namespace scd
