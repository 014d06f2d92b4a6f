// Byte-pair encoding by a list of merges, as tokenizer.json and GGUF's "gpt2" vocabularies hold it.
#ifndef SCD_COMMON_MODEL_BPE_MODEL_H_
#define SCD_COMMON_MODEL_BPE_MODEL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/digest.h"
#include "common/model/symbol_merger.h"
#include "common/model/vocabulary.h"

namespace scd {

struct BpeOptions {
  bool byte_level = false;     // symbols are bytes in GPT-2's spelling, else characters
  bool ignore_merges = false;  // a piece that is a token as a whole is that token
  bool byte_fallback = false;  // an unknown character becomes <0xXX> tokens
  bool fuse_unknown = false;   // neighbouring unknown characters become one unknown token
  std::string unknown_token;   // empty: an unknown character is an error
};

// Immutable and thread-safe.
class BpeModel {
 public:
  // Merges in rank order as pairs of token texts. INVALID_ARGUMENT naming a merge whose parts or result the
  // vocabulary lacks. Merges whose result is a special token are never applied.
  static absl::StatusOr<std::unique_ptr<BpeModel>> Create(
      const Vocabulary& vocabulary, const std::vector<std::pair<std::string_view, std::string_view>>& merges,
      const BpeOptions& options);

  // Appends the ids of one piece (raw UTF-8, not in GPT-2's spelling). INVALID_ARGUMENT for a byte or
  // character that the vocabulary lacks.
  absl::Status Encode(std::string_view piece, std::vector<std::int32_t>* ids) const;

  // Feeds options and merges.
  void AddTo(DigestBuilder* digest) const;

 private:
  BpeModel() = default;
  absl::Status AppendCharacter(std::string_view character, std::uint32_t at,
                               std::vector<Symbol>* symbols) const;

  struct Merge {
    std::int32_t rank;
    std::int32_t id;
  };

  BpeOptions options_;
  std::array<std::int32_t, 256> byte_ids_{};  // < 0: the vocabulary lacks it
  absl::flat_hash_map<std::string, std::int32_t>
      whole_;  // piece bytes -> id, where pieces or characters are looked up
  absl::flat_hash_map<std::uint64_t, Merge> merges_;  // left id << 32 | right id
  std::optional<std::int32_t> unknown_id_;
  Digest merges_digest_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_BPE_MODEL_H_
