// Names, plans and blocks for tests of code stores.
#ifndef SCD_TESTS_COMMON_STORE_BLOCK_SAMPLES_H_
#define SCD_TESTS_COMMON_STORE_BLOCK_SAMPLES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/config/layer_plan.h"
#include "common/io/digest.h"
#include "common/store/code_block.h"
#include "common/store/code_store.h"

namespace scd::testing {

inline Digest Name(const std::string& text) {
  return DigestBuilder("test").AddString(text).Finish();
}

inline LayerPlan Plan() {
  LayerPlan plan;
  plan.layers = {{.treatment = LayerTreatment::kReuse, .rank_k = 4, .rank_v = 6},
                 {.treatment = LayerTreatment::kPatch, .rank_h = 8}};
  return plan;
}

// One payload of so many bytes, all alike.
inline std::shared_ptr<const CodeBlock> FilledBlock(std::size_t bytes, char fill = 'x',
                                                    absl::Time created = absl::FromUnixSeconds(1000000)) {
  return MakeCodeBlock(8, {std::string(bytes, fill)}, created);
}

// A block whose every byte follows from its number, with payloads of several lengths, an empty one too.
inline std::shared_ptr<const CodeBlock> NumberedBlock(std::uint64_t number,
                                                      absl::Time created = absl::FromUnixSeconds(1000000)) {
  std::vector<std::string> payloads;
  std::uint64_t state = number * 0x9E3779B97F4A7C15u + 1;
  for (std::size_t column = 0; column < 4; ++column) {
    std::string payload(column == 2 ? 0 : 100 + (number * 37 + column * 501) % 3000, '\0');
    for (char& byte : payload) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<char>(state >> 56);
    }
    payloads.push_back(std::move(payload));
  }
  return MakeCodeBlock(1 + static_cast<std::int64_t>(number % 32), std::move(payloads), created);
}
inline Digest NumberedName(std::uint64_t number) {
  return Name("block " + std::to_string(number));
}

inline bool SameBlock(const CodeBlock& a, const CodeBlock& b) {
  return a.num_tokens == b.num_tokens && a.created == b.created && a.payloads == b.payloads;
}

// Null where the store does not have it.
inline std::shared_ptr<const CodeBlock> Find(CodeStore& store, const Digest& key) {
  const auto blocks = store.FindPrefix(absl::MakeConstSpan(&key, 1));
  return blocks.empty() ? nullptr : blocks[0];
}

}  // namespace scd::testing

#endif  // SCD_TESTS_COMMON_STORE_BLOCK_SAMPLES_H_
