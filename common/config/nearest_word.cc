#include "common/config/nearest_word.h"

#include <algorithm>
#include <cstddef>

namespace scd {
namespace {

// Insertions, removals and replacements that make one of the other.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> NearestWord(std::string_view word, const std::vector<std::string>& known) {
  std::optional<std::string> nearest;
  std::size_t distance = 1 + std::max<std::size_t>(2, word.size() / 3);
  for (const std::string& candidate : known) {
    const std::size_t of_candidate = EditDistance(word, candidate);
    if (of_candidate >= distance) continue;
    nearest = candidate;
    distance = of_candidate;
  }
  return nearest;
}

}  // namespace scd
