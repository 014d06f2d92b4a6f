#include "bench/kernels/rig.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>

namespace scd {

Tensor::Tensor(const Shape& shape, DType dtype) : shape_(shape), dtype_(dtype) {
  const auto count = static_cast<std::size_t>(shape.num_elements());
  bytes_.resize(count * static_cast<std::size_t>(DTypeBytes(dtype)));
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> distribution(-1.0f, 1.0f);
  for (std::size_t i = 0; i < count; ++i) {
    const float number = distribution(generator);
    if (dtype == DType::kF32) {
      std::memcpy(bytes_.data() + 4 * i, &number, 4);
    } else if (dtype == DType::kBF16) {
      std::memcpy(bytes_.data() + 2 * i, reinterpret_cast<const char*>(&number) + 2, 2);  // the upper half
    } else if (dtype == DType::kI8) {
      bytes_[i] = static_cast<std::byte>(static_cast<int>(100 * number));
    } else {
      const auto index = static_cast<std::int32_t>(i);
      std::memcpy(bytes_.data() + 4 * i, &index, 4);
    }
  }
}

Pages::Pages(std::int64_t sequences, std::int64_t positions, DType dtype)
    : pages_each_((positions + kPageTokens - 1) / kPageTokens),
      dtype_(dtype),
      k_({sequences * pages_each_, kKvHeads, kPageTokens, kHeadDim}, dtype),
      v_({sequences * pages_each_, kKvHeads, kPageTokens, kHeadDim}, dtype),
      k_scales_({sequences * pages_each_, kKvHeads, kPageTokens}),
      v_scales_({sequences * pages_each_, kKvHeads, kPageTokens}),
      tables_(static_cast<std::size_t>(sequences * pages_each_)) {
  std::iota(tables_.begin(), tables_.end(), 0);
  std::shuffle(tables_.begin(), tables_.end(), std::mt19937(1));
}

PagedKv Pages::of(std::int64_t sequence) {
  PagedKv kv{k_.view(), v_.view(),
             ConstTensorView(tables_.data() + sequence * pages_each_, DType::kI32, {pages_each_})};
  if (dtype_ == DType::kI8) {
    kv.k_scales = k_scales_.view();
    kv.v_scales = v_scales_.view();
  }
  return kv;
}

double Pages::bytes_per_position() const {
  const double scales = dtype_ == DType::kI8 ? 4.0 * kKvHeads : 0.0;
  return 2.0 * (static_cast<double>(kKvDim * static_cast<std::int64_t>(DTypeBytes(dtype_))) + scales);
}

const char* NameOf(DType dtype) {
  return dtype == DType::kI8 ? "i8" : dtype == DType::kBF16 ? "bf16" : "f32";
}

void Rig::Measure(benchmark::State& state, const Work& work, const std::function<absl::Status()>& op) const {
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) {
    const absl::Status status = op();
    if (!status.ok()) {
      state.SkipWithError(status.ToString().c_str());
      return;
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double runs_per_s = static_cast<double>(state.iterations()) / seconds.count();
  using benchmark::Counter;
  state.counters["bytes/s"] = Counter(work.bytes, Counter::kIsIterationInvariantRate, Counter::kIs1000);
  state.counters["of_read"] = work.bytes * runs_per_s / peak.read_bytes_per_s;
  if (work.flop <= 0.0) return;
  state.counters["FLOP/s"] = Counter(work.flop, Counter::kIsIterationInvariantRate, Counter::kIs1000);
  state.counters["of_product"] = work.flop * runs_per_s / peak.product_flop_per_s;
}

benchmark::internal::Benchmark* Settled(benchmark::internal::Benchmark* added) {
  return added->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMicrosecond);
}

}  // namespace scd
