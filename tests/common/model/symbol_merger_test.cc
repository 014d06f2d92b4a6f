#include "common/model/symbol_merger.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace scd {
namespace {

using Table = std::map<std::pair<std::int32_t, std::int32_t>, MergeRule>;

std::vector<Symbol> Symbols(const std::vector<std::int32_t>& ids) {
  std::vector<Symbol> out;
  for (std::uint32_t i = 0; i < ids.size(); ++i) out.push_back({ids[i], i, i + 1});
  return out;
}

std::vector<Symbol> Merged(const Table& table, const std::vector<std::int32_t>& ids) {
  std::vector<Symbol> symbols = Symbols(ids);
  MergeSymbols(&symbols, [&](const Symbol& a, const Symbol& b) -> std::optional<MergeRule> {
    const auto it = table.find({a.id, b.id});
    if (it == table.end()) return std::nullopt;
    return it->second;
  });
  return symbols;
}

// The definition, by looking at every pair again after every merge.
std::vector<std::int32_t> MergedPlainly(const Table& table, std::vector<std::int32_t> ids) {
  while (true) {
    std::size_t best = ids.size();
    MergeRule rule{};
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto it = table.find({ids[i], ids[i + 1]});
      if (it == table.end() || (best < ids.size() && it->second.priority >= rule.priority)) continue;
      best = i;
      rule = it->second;
    }
    if (best == ids.size()) return ids;
    ids[best] = rule.id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(MergeSymbols, AgreesWithTheDefinition) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    Table table;
    std::int32_t next = 4;
    for (int rank = 0; rank < 12; ++rank) {
      const auto left = static_cast<std::int32_t>(random() % static_cast<unsigned>(next));
      const auto right = static_cast<std::int32_t>(random() % static_cast<unsigned>(next));
      table.emplace(std::pair{left, right}, MergeRule{static_cast<double>(random() % 6), next});
      ++next;
    }
    std::vector<std::int32_t> ids(random() % 40);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 4);
    std::vector<std::int32_t> got;
    std::uint32_t at = 0;
    for (const Symbol& symbol : Merged(table, ids)) {
      got.push_back(symbol.id);
      EXPECT_EQ(symbol.begin, at);
      at = symbol.end;
    }
    EXPECT_EQ(at, ids.size());
    ASSERT_EQ(got, MergedPlainly(table, ids)) << "round " << round;
  }
}

TEST(MergeSymbols, StaysFastOnOneRepeatedSymbol) {
  Table table;
  for (std::int32_t i = 0; i < 20; ++i) table[{i, i}] = {static_cast<double>(i), i + 1};
  const auto start = std::chrono::steady_clock::now();
  const auto symbols = Merged(table, std::vector<std::int32_t>(1 << 20, 0));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  ASSERT_EQ(symbols.size(), 1u);
  EXPECT_EQ(symbols[0].id, 20);
}

}  // namespace
}  // namespace scd
