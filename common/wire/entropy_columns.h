// The tables of the entropy codec as its coder reads them.
#ifndef SCD_COMMON_WIRE_ENTROPY_COLUMNS_H_
#define SCD_COMMON_WIRE_ENTROPY_COLUMNS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/config/entropy_tables.h"

namespace scd {

// A column that is sent. Symbol s has the slots from starts[s] to before starts[s + 1], of 4096.
struct EntropyColumn {
  // Slots that share an entry of `symbols`: few enough that hardly any holds more than two symbols.
  static constexpr int kSharedBits = 5;

  std::uint32_t column = 0;
  std::array<std::uint16_t, kEntropySymbols + 1> starts = {};
  // The symbol of the first of (1 << kSharedBits) slots.
  std::array<std::uint8_t, (1 << (kEntropyBits - kSharedBits))> symbols = {};

  std::uint32_t frequency(std::size_t symbol) const {
    return static_cast<std::uint32_t>(starts[symbol + 1] - starts[symbol]);
  }
};

struct EntropyColumns {
  // `tables` have passed CheckEntropyTables.
  explicit EntropyColumns(const EntropyTables& tables);

  std::vector<float> steps;     // [rank]
  std::vector<float> inverses;  // [rank], 1 / step; 0 where the step is
  std::vector<EntropyColumn> sent;
};

}  // namespace scd

#endif  // SCD_COMMON_WIRE_ENTROPY_COLUMNS_H_
