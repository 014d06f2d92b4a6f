// The plan of one transfer: what happens to each layer, at which rank, and which positions stay native.
#ifndef SCD_COMMON_CONFIG_LAYER_PLAN_H_
#define SCD_COMMON_CONFIG_LAYER_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/codec.h"

namespace scd {

// What is sent for a layer.
enum class LayerTreatment : std::uint8_t {
  kReuse,      // low-rank codes of K and V
  kPatch,      // low-rank codes of the attention input
  kRaw,        // the producer's own K (before RoPE) and V
  kRawRoped,   // the producer's own K (after its RoPE) and V
  kRecompute,  // nothing: the consumer runs the layer, over the residual stream sent for the first of its
               // group
  kFused,      // one code for K and V of a group of layers, made from their attention inputs
};

// What a code stands for. The numbers are on the wire and in files: never renumber, only add.
enum class CodeKind : std::uint8_t { kK = 1, kV = 2, kH = 3, kResidual = 4, kKV = 5 };
inline constexpr std::int64_t kNumCodeKinds = 5;
std::string_view CodeKindName(CodeKind kind);  // "k", "v", "h", "residual", "kv"

struct LayerRanks {
  LayerTreatment treatment = LayerTreatment::kReuse;
  std::int64_t rank_k = 0;    // columns of K codes; kReuse (latent) and kRaw* (all: d_kv)
  std::int64_t rank_v = 0;    // of V codes; kReuse and kRaw*
  std::int64_t rank_h = 0;    // of Z_H; kPatch
  std::int64_t residual = 0;  // columns of the residual stream (all: hidden); kRecompute, first of its group
  std::int64_t rank_kv = 0;   // of Z_KV (all that was fitted); kFused, last of its group

  friend bool operator==(const LayerRanks&, const LayerRanks&) = default;
};

// One kind of code that a layer sends, and its columns.
struct SentKind {
  CodeKind kind = CodeKind::kK;
  std::int64_t rank = 0;
};
// In the order in which they are sent.
std::vector<SentKind> SentKinds(const LayerRanks& ranks);

// Layers first to last, both included.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  std::int64_t size() const { return last - first + 1; }
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

struct LayerPlan {
  std::vector<LayerRanks> layers;
  std::int64_t native_head = 1;   // first positions, computed by the consumer
  std::int64_t native_tail = 16;  // positions before the last prompt token, computed by the consumer
  Codec codec = Codec::kBF16;
  std::int64_t rate_point = 0;  // which of the bundle's entropy tables; kEntropy

  // Bytes of codes for one transferred token over all layers, scales included, without framing. Of codecs of
  // fixed size.
  double code_bytes_per_token() const;
  std::vector<std::int64_t> patch_layers() const;
  // The recomputed group; absent where there is none. Valid plans have at most one.
  std::optional<LayerRange> recomputed() const;
  // The layers whose K and V a code of `layer` holds: of kFused its group up to it, else the layer alone.
  LayerRange CodeLayers(std::int64_t layer) const;
  // What the layer shows is part of a code that a later layer of its group sends.
  bool CodeComesLater(std::int64_t layer) const {
    const LayerRanks& ranks = layers[static_cast<std::size_t>(layer)];
    return ranks.treatment == LayerTreatment::kFused && ranks.rank_kv == 0;
  }
  // The same codes are sent for both: native ranges do not matter.
  bool SendsAs(const LayerPlan& other) const {
    return layers == other.layers && codec == other.codec && rate_point == other.rate_point;
  }
  // "reuse 24 layers at K 96 / V 128, patch 6 layers [18 19 ...] at H 576, native head 1, tail 16, bf16".
  std::string ToString() const;

  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;
};

// What a plan is made of where nothing else is said about a layer.
enum class StateForm : std::uint8_t {
  kCodes,      // Reuse and Patch
  kRaw,        // K before RoPE
  kRawRoped,   // K after the producer's RoPE
  kSelective,  // raw before RoPE, one group of layers recomputed
  kFused,      // one code of K and V for every layer
};

// What an operator asks for in YAML or a client in a request; an absent field means the bundle's own value.
struct PlanRequest {
  StateForm form = StateForm::kCodes;
  std::optional<std::int64_t> rank_k = std::nullopt;
  std::optional<std::int64_t> rank_v = std::nullopt;
  std::optional<std::int64_t> rank_h = std::nullopt;
  std::optional<std::vector<std::int64_t>> patch_layers = std::nullopt;  // absent: auto, the bundle's choice
  std::optional<LayerRange> recompute_layers = std::nullopt;             // absent: auto, the bundle's choice
  std::optional<std::int64_t> native_head = std::nullopt;
  std::optional<std::int64_t> native_tail = std::nullopt;
  std::optional<Codec> codec = std::nullopt;  // absent: bf16; of kFused entropy where the bundle has tables
  std::optional<double> distortion = std::nullopt;  // of the entropy codec, one of the bundle's rate points
};

}  // namespace scd

#endif  // SCD_COMMON_CONFIG_LAYER_PLAN_H_
