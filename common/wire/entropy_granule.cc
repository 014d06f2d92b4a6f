#include "common/wire/entropy_granule.h"

#include <array>
#include <bit>
#include <cstring>

#include "absl/base/optimization.h"

namespace scd {
namespace {

static_assert(std::endian::native == std::endian::little, "words are coded as they lie in memory");

constexpr std::int64_t kLanes = 4;
using States = std::array<std::uint32_t, kLanes>;
static_assert(sizeof(States) == kGranuleStateBytes);

// States lie in [kLeastState, 2^32).
constexpr std::uint32_t kLeastState = 1 << 16;
constexpr int kWordBits = 16;
constexpr std::uint32_t kSlotMask = (1 << kEntropyBits) - 1;

// A state that is about to take a symbol is less than f 2^20, and for such an x the integer part of x / f is
// x kReciprocals[f] >> 44: with e = f kReciprocals[f] - 2^44, which is less than f, f e < 2^24 keeps both the
// product below 2^64 and the error x e / (f 2^44) below 1 / f.
constexpr int kReciprocalBits = 44;
constexpr auto kReciprocals = [] {
  std::array<std::uint64_t, (1 << kEntropyBits) + 1> reciprocals = {};
  for (std::uint64_t f = 1; f < reciprocals.size(); ++f) {
    reciprocals[f] = ((std::uint64_t{1} << kReciprocalBits) + f - 1) / f;
  }
  return reciprocals;
}();

// Whether a state takes or gives a word is as good as random, so both do without branches.

// Moves what no longer fits to before `words`, then takes the symbol.
inline std::uint32_t Push(std::uint32_t state, std::uint32_t start, std::uint32_t frequency,
                          std::uint16_t*& words) {
  const std::uint32_t full = state >= std::uint64_t{frequency} << (32 - kEntropyBits);
  words[-1] = static_cast<std::uint16_t>(state);
  words -= full;
  state >>= full * kWordBits;
  const auto quotient = static_cast<std::uint32_t>(state * kReciprocals[frequency] >> kReciprocalBits);
  return state + start + quotient * ((1 << kEntropyBits) - frequency);
}

// Gives the symbol, then reads a word where the state has become too small.
inline std::uint8_t Pop(std::uint32_t& state, const EntropyColumn& column, const char*& words) {
  const std::uint32_t slot = state & kSlotMask;
  std::size_t symbol = column.symbols[slot >> EntropyColumn::kSharedBits];
  symbol += slot >= column.starts[symbol + 1];
  while (ABSL_PREDICT_FALSE(slot >= column.starts[symbol + 1])) ++symbol;
  const std::uint32_t rest =
      column.frequency(symbol) * (state >> kEntropyBits) + slot - column.starts[symbol];
  std::uint16_t word;
  std::memcpy(&word, words, sizeof(word));
  const std::uint32_t empty = rest < kLeastState;
  state = rest << (empty * kWordBits) | (word & (0 - empty));
  words += empty * sizeof(word);
  return static_cast<std::uint8_t>(symbol);
}

// An escape's bytes in the order they are written: read from the back, they are a varint, lowest bits first.
void AppendEscape(std::int32_t q, std::string& out) {
  std::uint32_t bits = static_cast<std::uint32_t>(q) << 1 ^ static_cast<std::uint32_t>(q >> 31);
  std::array<char, 5> bytes;
  std::size_t first = bytes.size();
  for (; bits >= 0x80; bits >>= 7) bytes[--first] = static_cast<char>(bits | 0x80);
  bytes[--first] = static_cast<char>(bits);
  // The most significant byte, the last one read, comes first.
  out.append(bytes.data() + first, bytes.size() - first);
}

// Reads one from before `end`, not from before `begin`. False where there is none that AppendEscape writes.
bool ReadEscape(const char* begin, const char*& end, std::int32_t& q) {
  std::uint64_t bits = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    if (end == begin) return false;
    const auto byte = static_cast<std::uint8_t>(*--end);
    bits |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte >= 0x80) continue;
    if ((byte == 0 && shift > 0) || bits > std::uint64_t{1} << 31) return false;
    q = static_cast<std::int32_t>(bits >> 1) ^ -static_cast<std::int32_t>(bits & 1);
    return true;
  }
  return false;
}

// Whether q is coded as an escape; such a q is never coded otherwise.
bool IsEscaped(const EntropyColumn& column, std::int32_t q) {
  return q < -kLargestSymbolValue || q > kLargestSymbolValue ||
         column.frequency(static_cast<std::size_t>(q + kLargestSymbolValue)) == 0;
}

// Calls `escaped` with the tokens whose numbers are escapes. Tokens come in falling order.
template <typename Escaped>
void EncodeColumn(const EntropyColumn& column, std::int64_t num_tokens, States& states, std::uint16_t*& words,
                  const std::uint8_t* symbols, std::size_t stride, const Escaped& escaped) {
  std::uint16_t* next = words;
  const auto put = [&](std::uint32_t& state, std::int64_t token) {
    std::size_t symbol = symbols[static_cast<std::size_t>(token) * stride];
    if (ABSL_PREDICT_FALSE(symbol == kEscapeSymbol || column.frequency(symbol) == 0)) {
      symbol = kEscapeSymbol;
      escaped(token);
    }
    state = Push(state, column.starts[symbol], column.frequency(symbol), next);
  };
  std::int64_t t = num_tokens;
  for (; t % kLanes != 0; --t) put(states[static_cast<std::size_t>((t - 1) % kLanes)], t - 1);
  auto [a, b, c, d] = states;
  for (; t > 0; t -= kLanes) {
    put(d, t - 1);
    put(c, t - 2);
    put(b, t - 3);
    put(a, t - 4);
  }
  states = {a, b, c, d};
  words = next;
}

// Whether any of the column's numbers is an escape.
bool DecodeColumn(const EntropyColumn& column, std::int64_t num_tokens, States& states, const char*& words,
                  std::uint8_t* symbols, std::size_t stride) {
  auto [a, b, c, d] = states;
  const char* next = words;
  bool escapes = false;
  std::int64_t t = 0;
  for (; t + kLanes <= num_tokens; t += kLanes, symbols += kLanes * stride) {
    const std::uint8_t of_a = Pop(a, column, next);
    const std::uint8_t of_b = Pop(b, column, next);
    const std::uint8_t of_c = Pop(c, column, next);
    const std::uint8_t of_d = Pop(d, column, next);
    symbols[0] = of_a;
    symbols[stride] = of_b;
    symbols[2 * stride] = of_c;
    symbols[3 * stride] = of_d;
    escapes |=
        of_a == kEscapeSymbol || of_b == kEscapeSymbol || of_c == kEscapeSymbol || of_d == kEscapeSymbol;
  }
  states = {a, b, c, d};
  for (; t < num_tokens; ++t, symbols += stride) {
    *symbols = Pop(states[static_cast<std::size_t>(t % kLanes)], column, next);
    escapes |= *symbols == kEscapeSymbol;
  }
  words = next;
  return escapes;
}

}  // namespace

GranuleEncoder::GranuleEncoder(const EntropyColumns& columns, std::int64_t most_tokens)
    : columns_(columns),
      symbols_(most_tokens, columns.steps.size()),
      // One more in front, where Push writes before it knows whether it has to.
      words_(static_cast<std::size_t>(most_tokens) * columns.sent.size() + 1) {}

bool GranuleEncoder::Append(const float* rows, std::int64_t num_tokens, std::string& out) {
  if (!Quantise(columns_, rows, num_tokens, symbols_)) return false;
  States states;
  states.fill(kLeastState);
  std::uint16_t* const end = words_.data() + words_.size();
  std::uint16_t* words = end;
  escapes_.clear();
  const std::size_t rank = columns_.steps.size();
  // What is read last is written first.
  for (auto column = columns_.sent.rbegin(); column != columns_.sent.rend(); ++column) {
    const std::size_t c = column->column;
    EncodeColumn(*column, num_tokens, states, words, symbols_.row(0) + c, symbols_.stride(),
                 [&](std::int64_t token) {
                   const float number = rows[static_cast<std::size_t>(token) * rank + c];
                   AppendEscape(QuantiseNumber(number, columns_.inverses[c]), escapes_);
                 });
  }
  out.append(reinterpret_cast<const char*>(states.data()), sizeof(states));
  out.append(reinterpret_cast<const char*>(words), static_cast<std::size_t>(end - words) * sizeof(*words));
  out.append(escapes_);
  return true;
}

GranuleDecoder::GranuleDecoder(const EntropyColumns& columns, std::int64_t most_tokens)
    : columns_(columns), symbols_(most_tokens, columns.steps.size()) {}

bool GranuleDecoder::Decode(absl::string_view granule, std::int64_t num_tokens, float* rows) {
  if (granule.size() < kGranuleStateBytes) return false;
  States states;
  std::memcpy(states.data(), granule.data(), sizeof(states));
  for (const std::uint32_t state : states) {
    if (state < kLeastState) return false;
  }
  // A column reads no more than a word for each token, and looks at one more: behind a granule that breaks
  // off there is enough for the column that finds out.
  const absl::string_view body = granule.substr(sizeof(states));
  granule_.assign(body.data(), body.size());
  granule_.append(static_cast<std::size_t>(num_tokens + 1) * sizeof(std::uint16_t), '\0');
  const char* const begin = granule_.data();
  const char* const end = begin + body.size();
  const char* words = begin;
  const char* escapes_end = end;
  const std::size_t rank = columns_.steps.size();
  escapes_.clear();
  for (const EntropyColumn& column : columns_.sent) {
    std::uint8_t* const symbols = symbols_.row(0) + column.column;
    const bool escapes = DecodeColumn(column, num_tokens, states, words, symbols, symbols_.stride());
    if (words > end) return false;
    if (ABSL_PREDICT_TRUE(!escapes)) continue;
    for (std::int64_t t = 0; t < num_tokens; ++t) {
      if (symbols_.row(t)[column.column] != kEscapeSymbol) continue;
      std::int32_t q = 0;
      if (!ReadEscape(begin, escapes_end, q) || !IsEscaped(column, q)) return false;
      escapes_.emplace_back(static_cast<std::size_t>(t) * rank + column.column, q);
    }
  }
  if (words != escapes_end) return false;
  for (const std::uint32_t state : states) {
    if (state != kLeastState) return false;
  }
  Dequantise(columns_, symbols_, num_tokens, rows);
  for (const auto& [place, q] : escapes_) rows[place] = static_cast<float>(q) * columns_.steps[place % rank];
  return true;
}

}  // namespace scd
