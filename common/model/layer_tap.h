// What a layer shows while a forward pass runs through it.
#ifndef SCD_COMMON_MODEL_LAYER_TAP_H_
#define SCD_COMMON_MODEL_LAYER_TAP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace scd {

// Kinds of state a tap can ask for; a set is the bitwise or.
enum class TapKind : std::uint32_t {
  kKPreRope = 1u << 0,        // K after bias and k_norm, before RoPE
  kV = 1u << 1,               // V
  kAttentionInput = 1u << 2,  // input of the attention block, after its RMSNorm
  kResidual = 1u << 3,        // the residual stream entering the layer
};

class TapKinds {
 public:
  constexpr TapKinds() = default;
  constexpr TapKinds(TapKind kind)
      : bits_(static_cast<std::uint32_t>(kind)) {}  // NOLINT(google-explicit-constructor)
  constexpr TapKinds operator|(TapKinds other) const { return TapKinds(bits_ | other.bits_); }
  constexpr bool Has(TapKind kind) const { return (bits_ & static_cast<std::uint32_t>(kind)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  constexpr explicit TapKinds(std::uint32_t bits) : bits_(bits) {}
  std::uint32_t bits_ = 0;
};
constexpr TapKinds operator|(TapKind a, TapKind b) {
  return TapKinds(a) | TapKinds(b);
}

// State of one layer for all rows of one forward pass, in the order of its chunks. Views hold until OnLayer
// returns; work on them is queued on `stream`. Kinds that were not asked for are empty views.
struct LayerView {
  std::int64_t layer = 0;
  Stream* stream = nullptr;
  ConstTensorView k_pre_rope;       // [rows, d_kv]
  ConstTensorView v;                // [rows, d_kv]
  ConstTensorView attention_input;  // [rows, hidden]
  ConstTensorView residual;         // [rows, hidden]
};

class LayerTap {
 public:
  virtual ~LayerTap() = default;
  // What OnLayer wants to see of this layer; an empty set: OnLayer is not called for it.
  virtual TapKinds Wanted(std::int64_t layer) const = 0;
  // Called in layer order, on the thread of the forward pass, as soon as the layer's K and V exist and before
  // its attention and MLP. An error ends the forward pass with that error.
  virtual absl::Status OnLayer(const LayerView& view) = 0;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_LAYER_TAP_H_
