// Trains the residual network of one aligner: AdamW, cosine learning rate, batches in a random order that
// depends on the seed alone, until the held-out loss stops falling. The best network seen on the held-out
// rows is kept; where none is better than no residual at all, that is y = 0.
#ifndef SCD_CALIBRATE_ALIGNER_TRAINER_H_
#define SCD_CALIBRATE_ALIGNER_TRAINER_H_

#include <cstdint>
#include <functional>
#include <stop_token>

#include "absl/status/statusor.h"
#include "calibrate/host_math.h"
#include "calibrate/mlp.h"

namespace scd {

struct AlignerTraining {
  std::int64_t mlp_width = 1024;
  std::int64_t max_epochs = 8;
  std::int64_t batch_rows = 256;
  double learning_rate = 1e-3;  // at the start; falls to 0 over max_epochs as a cosine
  double weight_decay = 0.05;
  std::int64_t patience = 2;  // epochs without a lower held-out loss after which training ends
  std::uint64_t seed = 0;
};

// Scaled rows: x [n, in], y [n, out], f32 on the host.
struct AlignerRows {
  ConstTensorView x;
  ConstTensorView y;
};

struct TrainedAligner {
  Mlp mlp;
  double held_out_loss_before = 0;  // of y = 0
  double held_out_loss = 0;         // of `mlp`
  std::int64_t epochs = 0;          // run
};

// on_step(done, total) is called after every batch. held_out may be empty (no rows): then the last network is
// kept and losses are 0. CANCELLED when `cancel` is set; INVALID_ARGUMENT where there is no row to train on.
absl::StatusOr<TrainedAligner> TrainAligner(HostMath& math, const AlignerRows& rows,
                                            const AlignerRows& held_out, const AlignerTraining& training,
                                            std::stop_token cancel,
                                            const std::function<void(std::int64_t, std::int64_t)>& on_step);

}  // namespace scd

#endif  // SCD_CALIBRATE_ALIGNER_TRAINER_H_
