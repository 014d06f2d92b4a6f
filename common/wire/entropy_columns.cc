#include "common/wire/entropy_columns.h"

namespace scd {
namespace {

EntropyColumn MakeColumn(std::size_t column, absl::Span<const std::int32_t> frequencies) {
  EntropyColumn made;
  made.column = static_cast<std::uint32_t>(column);
  for (std::size_t s = 0; s < frequencies.size(); ++s) {
    made.starts[s + 1] = static_cast<std::uint16_t>(made.starts[s] + frequencies[s]);
  }
  std::uint8_t symbol = 0;
  for (std::size_t i = 0; i < made.symbols.size(); ++i) {
    while (made.starts[symbol + std::size_t{1}] <= i << EntropyColumn::kSharedBits) ++symbol;
    made.symbols[i] = symbol;
  }
  return made;
}

}  // namespace

EntropyColumns::EntropyColumns(const EntropyTables& tables)
    : steps(tables.steps.begin(), tables.steps.end()) {
  constexpr auto kSymbols = static_cast<std::size_t>(kEntropySymbols);
  for (std::size_t c = 0; c < steps.size(); ++c) {
    inverses.push_back(steps[c] == 0.0f ? 0.0f : 1.0f / steps[c]);
    if (steps[c] != 0.0f) sent.push_back(MakeColumn(c, tables.frequencies.subspan(c * kSymbols, kSymbols)));
  }
}

}  // namespace scd
