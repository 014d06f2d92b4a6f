// The plan of one transfer: what happens to each layer, at which rank, and which positions stay native.
#ifndef SCD_COMMON_CONFIG_LAYER_PLAN_H_
#define SCD_COMMON_CONFIG_LAYER_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/dtype.h"

namespace scd {

// What is sent for a layer: low-rank codes of K and V (Reuse) or of the attention input (Patch).
enum class LayerTreatment : std::uint8_t { kReuse, kPatch };

// What a code stands for. The numbers are on the wire and in files: never renumber, only add.
enum class CodeKind : std::uint8_t { kK = 1, kV = 2, kH = 3 };
std::string_view CodeKindName(CodeKind kind);  // "k", "v", "h"

struct LayerRanks {
  LayerTreatment treatment = LayerTreatment::kReuse;
  std::int64_t rank_k = 0;  // latent columns of Z_K; used for kReuse
  std::int64_t rank_v = 0;  // of Z_V; used for kReuse
  std::int64_t rank_h = 0;  // of Z_H; used for kPatch

  friend bool operator==(const LayerRanks&, const LayerRanks&) = default;
};

struct LayerPlan {
  std::vector<LayerRanks> layers;
  std::int64_t native_head = 1;     // first positions, computed by the consumer
  std::int64_t native_tail = 16;    // positions before the last prompt token, computed by the consumer
  DType code_dtype = DType::kBF16;  // kBF16 or kF32

  // Bytes of codes for one transferred token over all layers, without framing.
  std::int64_t code_bytes_per_token() const;
  std::vector<std::int64_t> patch_layers() const;
  // "reuse 24 layers at K 96 / V 128, patch 6 layers [18 19 ...] at H 576, native head 1, tail 16, bf16".
  std::string ToString() const;

  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;
};

// What an operator asks for in YAML or a client in a request; an absent field means the bundle's own value.
struct PlanRequest {
  std::optional<std::int64_t> rank_k = std::nullopt;
  std::optional<std::int64_t> rank_v = std::nullopt;
  std::optional<std::int64_t> rank_h = std::nullopt;
  std::optional<std::vector<std::int64_t>> patch_layers = std::nullopt;  // absent: auto, the bundle's choice
  std::optional<std::int64_t> native_head = std::nullopt;
  std::optional<std::int64_t> native_tail = std::nullopt;
  std::optional<DType> code_dtype = std::nullopt;
};

}  // namespace scd

#endif  // SCD_COMMON_CONFIG_LAYER_PLAN_H_
