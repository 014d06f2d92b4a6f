// What a transfer costs on each side: the producer's prefill with encoding, the consumer's rebuilding, and
// what the consumer computes itself. Both sides run in this process with one model; what a link would take is
// computed from the bytes.
#ifndef SCD_BENCH_GPU_TRANSFER_SPEED_H_
#define SCD_BENCH_GPU_TRANSFER_SPEED_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/gpu/model_rig.h"
#include "bench/gpu/peaks.h"
#include "bench/gpu/timing.h"
#include "common/bundle/bundle.h"
#include "common/translate/layer_rebuilder.h"
#include "nlohmann/json.hpp"
#include "producer/encoder_cache.h"

namespace scd {

// "reuse": Reuse in every layer; "scd": some layers patched; both with bf16 codes. "fused": one entropy coded
// code for K and V of each layer.
inline constexpr const char* kTransferForms[] = {"reuse", "scd", "fused"};

class TransferBenchmark {
 public:
  // All outlive this.
  static absl::StatusOr<std::unique_ptr<TransferBenchmark>> Create(const ModelRig& rig, const Bundle& bundle,
                                                                   const std::string& form);

  // One prompt of `tokens` tokens, whose own prefill takes native_seconds; times for each link.
  absl::StatusOr<nlohmann::json> Measure(std::int64_t tokens, double native_seconds,
                                         const std::vector<double>& links_gbit_per_s, const Peaks& peaks,
                                         const Turns& turns);

 private:
  TransferBenchmark(const ModelRig& rig, std::string form) : rig_(rig), form_(std::move(form)) {}

  double RebuildFlopPerToken() const;
  absl::Status Produce(Sequence& sequence, std::int64_t end);
  absl::Status Rebuild(Sequence& sequence);
  // The positions before and after those that codes came for, to the first logits.
  absl::Status ComputeRest(Sequence& sequence, std::int64_t end, std::int64_t tokens);

  const ModelRig& rig_;
  const std::string form_;
  std::int64_t mlp_width_ = 0, head_ = 0, tail_ = 0;
  std::unique_ptr<Stream> stream_;
  ReadyEncoder encoder_;
  std::unique_ptr<LayerRebuilder> rebuilder_;
  std::unique_ptr<LayerRebuilder::Workspace> rebuilding_;
  std::vector<LayerCode> codes_;
};

}  // namespace scd

#endif  // SCD_BENCH_GPU_TRANSFER_SPEED_H_
