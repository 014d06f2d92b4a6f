// A row of the table: one way of moving a prompt's state, with the settings that it is measured at.
#ifndef SCD_EVAL_MODE_ROW_H_
#define SCD_EVAL_MODE_ROW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config/codec.h"
#include "common/config/layer_plan.h"
#include "common/config/transfer_modes.h"

namespace scd {

// How a request asks for its prompt's state. What is absent is the bundle's own (or the consumer's, where the
// bundle cannot be read from here).
struct TransferSpec {
  std::string mode = std::string(kLocalMode);
  std::optional<std::int64_t> rank_k = std::nullopt;  // scd, reuse
  std::optional<std::int64_t> rank_v = std::nullopt;
  std::optional<std::int64_t> rank_h = std::nullopt;                     // scd
  std::optional<std::vector<std::int64_t>> patch_layers = std::nullopt;  // scd
  std::optional<LayerRange> recompute_layers = std::nullopt;             // selective
  std::optional<Codec> codec = std::nullopt;
  std::optional<double> distortion = std::nullopt;  // codec entropy
  std::int64_t native_head = 0;  // positions that the consumer computes itself
  std::int64_t native_tail = 0;

  bool is_local() const { return mode == kLocalMode; }
  // What is sent are fitted codes.
  bool sends_codes() const { return mode == "scd" || mode == "reuse" || mode == "fused"; }
  bool is_quantized() const { return mode == "quantized" || mode == "quantized_rerope"; }

  friend bool operator==(const TransferSpec&, const TransferSpec&) = default;
};

struct ModeRow {
  std::string name;   // "SCD"
  std::string group;  // rows of one group are compared with each other: "published", "equal"
  TransferSpec spec;

  friend bool operator==(const ModeRow&, const ModeRow&) = default;
};

// The paper's table: every way at the native ranges that it was published with, and all of them again at
// equal ones.
std::vector<ModeRow> DefaultRows();

// Rows whose codes are fitted, once for each codec; others, and rows that name a codec, stay as they are. No
// codec: the rows as they are. The mode's own (bf16, of fused entropy) keeps the row's name.
std::vector<ModeRow> RepeatForCodecs(const std::vector<ModeRow>& rows, const std::vector<Codec>& codecs);

// Why the settings of a row contradict its mode; empty where they do not.
std::string ContradictionIn(const TransferSpec& spec);

// What the bundle is asked for.
PlanRequest PlanRequestOf(const TransferSpec& spec);

}  // namespace scd

#endif  // SCD_EVAL_MODE_ROW_H_
