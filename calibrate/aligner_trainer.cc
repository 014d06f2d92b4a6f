#include "calibrate/aligner_trainer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "calibrate/adamw.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kEvaluationRows = 512;

// Fisher-Yates with the generator's own bits, so that the order is the same with every standard library.
void Shuffle(std::vector<std::int64_t>& order, std::mt19937_64& random) {
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(random() % i)]);
  }
}

// Rows of x and y of one batch, made contiguous.
class Batch {
 public:
  Batch(const MlpShape& shape, std::int64_t rows)
      : shape_(shape),
        rows_(rows),
        x_(static_cast<std::size_t>(rows * shape.in)),
        y_(static_cast<std::size_t>(rows * shape.out)) {}

  void Gather(const AlignerRows& from, const std::int64_t* order) {
    for (std::int64_t i = 0; i < rows_; ++i) {
      std::copy_n(from.x.row<float>(order[i]), shape_.in, x_.data() + i * shape_.in);
      std::copy_n(from.y.row<float>(order[i]), shape_.out, y_.data() + i * shape_.out);
    }
  }
  ConstTensorView x() const { return MatrixView(x_.data(), rows_, shape_.in); }
  ConstTensorView y() const { return MatrixView(y_.data(), rows_, shape_.out); }

 private:
  const MlpShape shape_;
  const std::int64_t rows_;
  std::vector<float> x_;
  std::vector<float> y_;
};

absl::StatusOr<double> MeanLoss(HostMath& math, MlpPass& pass, const Mlp& mlp, const AlignerRows& rows) {
  double sum = 0;
  const std::int64_t total = rows.x.dim(0);
  for (std::int64_t begin = 0; begin < total; begin += kEvaluationRows) {
    const std::int64_t count = std::min(kEvaluationRows, total - begin);
    SCD_ASSIGN_OR_RETURN(const double loss,
                         pass.Loss(math, mlp, rows.x.rows(begin, count), rows.y.rows(begin, count)));
    sum += loss * static_cast<double>(count);
  }
  return sum / static_cast<double>(total);
}

}  // namespace

absl::StatusOr<TrainedAligner> TrainAligner(HostMath& math, const AlignerRows& rows,
                                            const AlignerRows& held_out, const AlignerTraining& training,
                                            std::stop_token cancel,
                                            const std::function<void(std::int64_t, std::int64_t)>& on_step) {
  const std::int64_t num_rows = rows.x.empty() ? 0 : rows.x.dim(0);
  if (num_rows == 0) return absl::InvalidArgumentError("no rows to train an aligner on");
  const bool has_held_out = !held_out.x.empty() && held_out.x.dim(0) > 0;
  const MlpShape shape{.in = rows.x.dim(1), .width = training.mlp_width, .out = rows.y.dim(1)};
  const std::int64_t batch_rows = std::min(training.batch_rows, num_rows);
  const std::int64_t steps_per_epoch = num_rows / batch_rows;
  const std::int64_t total_steps = steps_per_epoch * training.max_epochs;

  std::mt19937_64 random(training.seed);
  Mlp mlp(shape, random());
  MlpPass pass(shape, std::max(batch_rows, kEvaluationRows));
  Batch batch(shape, batch_rows);
  AdamW optimiser(shape.num_parameters(), training.weight_decay);
  std::vector<float> gradient(mlp.parameters().size());
  std::vector<std::int64_t> order(static_cast<std::size_t>(num_rows));
  std::iota(order.begin(), order.end(), std::int64_t{0});

  TrainedAligner best{.mlp = mlp};
  if (has_held_out) {
    SCD_ASSIGN_OR_RETURN(best.held_out_loss_before, MeanLoss(math, pass, mlp, held_out));
    best.held_out_loss = best.held_out_loss_before;
  }
  std::int64_t step = 0;
  std::int64_t epochs_without_gain = 0;
  for (std::int64_t epoch = 0; epoch < training.max_epochs; ++epoch) {
    Shuffle(order, random);
    for (std::int64_t i = 0; i < steps_per_epoch; ++i) {
      if (cancel.stop_requested()) return absl::CancelledError("stopped while an aligner was trained");
      ++step;
      const double progress = static_cast<double>(step) / static_cast<double>(total_steps);
      const double rate = training.learning_rate * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
      batch.Gather(rows, order.data() + i * batch_rows);
      SCD_RETURN_IF_ERROR(
          pass.LossAndGradient(math, mlp, batch.x(), batch.y(), absl::MakeSpan(gradient)).status());
      optimiser.Step(rate, gradient, absl::MakeSpan(mlp.parameters()));
      if (on_step) on_step(step, total_steps);
    }
    best.epochs = epoch + 1;
    if (!has_held_out) {
      best.mlp.parameters() = mlp.parameters();
      continue;
    }
    SCD_ASSIGN_OR_RETURN(const double loss, MeanLoss(math, pass, mlp, held_out));
    if (loss < best.held_out_loss) {
      best.held_out_loss = loss;
      best.mlp.parameters() = mlp.parameters();
      epochs_without_gain = 0;
    } else if (++epochs_without_gain >= training.patience) {
      break;
    }
  }
  return best;
}

}  // namespace scd
