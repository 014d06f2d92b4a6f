#include "bench/kernels/weights.h"

#include <algorithm>
#include <memory>

#include "kernels/quantized_matrix.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kBytesBeyondCaches = 96 << 20;

// Copies of one matrix that together lie beyond the caches. Only those of the matrix that is measured exist:
// Google Benchmark calls a benchmark several times, so they are kept until another matrix is asked for.
class WeightCopies {
 public:
  absl::Status Use(Backend& backend, WeightFormat format, std::int64_t in, std::int64_t out) {
    if (in == in_ && out == out_ && format == format_ && !copies_.empty()) return absl::OkStatus();
    copies_.clear();
    in_ = in, out_ = out, format_ = format;
    Tensor numbers({out, in});
    QuantizedMatrix quantised;
    if (format != WeightFormat::kDense) {
      SCD_ASSIGN_OR_RETURN(quantised, QuantizeMatrix(numbers.view(), format == WeightFormat::kInt8 ? 8 : 4));
    }
    std::int64_t bytes = 0;
    do {
      SCD_ASSIGN_OR_RETURN(copies_.emplace_back(), format == WeightFormat::kDense
                                                       ? backend.PackWeight(numbers.view(), {})
                                                       : backend.PackQuantized(quantised, {}));
      bytes += std::max<std::int64_t>(1, copies_.back()->size_bytes());
    } while (bytes < kBytesBeyondCaches);
    return absl::OkStatus();
  }

  const PackedWeight& Next() {
    next_ = (next_ + 1) % copies_.size();
    return *copies_[next_];
  }

 private:
  WeightFormat format_ = WeightFormat::kDense;
  std::int64_t in_ = 0, out_ = 0;
  std::vector<std::unique_ptr<PackedWeight>> copies_;
  std::size_t next_ = 0;
};

void Multiply(benchmark::State& state, Rig& rig, WeightCopies& weights, std::int64_t in, std::int64_t out) {
  const std::int64_t rows = state.range(0);
  Tensor x({rows, in}), result({rows, out});
  rig.Measure(state,
              {.flop = 2.0 * static_cast<double>(rows * in * out),
               .bytes = static_cast<double>(weights.Next().size_bytes() + 4 * rows * (in + out))},
              [&] { return rig.backend->MatMul(*rig.stream, x.view(), weights.Next(), result.view()); });
}

}  // namespace

void RegisterWeights(Rig& rig, WeightFormat format, const std::string& name, const std::vector<int>& rows) {
  const struct {
    const char* name;
    std::int64_t in, out;
  } matrices[] = {{"qkv", kHidden, kHidden + 2 * kKvDim},
                  {"output", kHidden, kHidden},
                  {"gate_up", kHidden, 2 * kMlp},
                  {"down", kMlp, kHidden},
                  {"head", kHidden, kVocabulary}};
  const auto copies = std::make_shared<WeightCopies>();
  for (const auto& matrix : matrices) {
    const std::string full = name + matrix.name + "/rows";
    auto* added = Settled(benchmark::RegisterBenchmark(
        full.c_str(), [&rig, copies, format, in = matrix.in, out = matrix.out](benchmark::State& state) {
          const absl::Status status = copies->Use(*rig.backend, format, in, out);
          if (!status.ok()) {
            state.SkipWithError(status.ToString().c_str());
            return;
          }
          Multiply(state, rig, *copies, in, out);
        }));
    for (const int count : rows) added->Arg(count);
  }
}

}  // namespace scd
