// Ops called from several threads at once, each on its own stream of one backend, give what they give alone.
#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/kernels/backend_rig.h"

namespace scd::testing {
namespace {

// A little of everything on one stream: a product, a norm, attention over the KV it wrote.
class Worker {
 public:
  Worker(BackendRig& rig, const PackedWeight& weight, std::int64_t rows, unsigned seed)
      : rig_(rig),
        weight_(weight),
        stream_(*rig.backend().CreateStream()),
        x_(rig.Put({rows, 64}, Random(rows * 64, seed))),
        norm_(rig.Put({64}, Random(64, seed + 1))),
        normed_(rig.Make({rows, 64})),
        product_(rig.Make({rows, 96})),
        out_(rig.Make({rows, 2, 32})),
        k_pages_(rig.Make({(rows + 15) / 16, 1, 16, 32})),
        v_pages_(rig.Make({(rows + 15) / 16, 1, 16, 32})),
        block_table_(rig.PutIndices(Count((rows + 15) / 16))),
        positions_(rig.PutIndices(Count(rows))) {}

  absl::Status Run() {
    Backend& backend = rig_.backend();
    const std::int64_t rows = x_.view.dim(0);
    absl::Status status = backend.RmsNorm(*stream_, x_.view, norm_.view, 1e-5f, normed_.view);
    status.Update(backend.MatMul(*stream_, normed_.view, weight_, product_.view, {}));
    const TensorView q = product_.view.columns(0, 64).Reshaped({rows, 2, 32});
    const TensorView kv = product_.view.columns(64, 32).Reshaped({rows, 1, 32});
    const PagedKv pages{k_pages_.view, v_pages_.view, block_table_.view};
    status.Update(backend.WriteKv(*stream_, kv, kv, positions_.view, pages));
    status.Update(backend.Attention(*stream_, q, {{0, rows, 0, pages}}, {.scale = 0.2f}, out_.view));
    return status;
  }

  std::vector<float> result() { return rig_.Get(out_); }

 private:
  static std::vector<std::int32_t> Count(std::int64_t n) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(n));
    std::iota(values.begin(), values.end(), 0);
    return values;
  }

  BackendRig& rig_;
  const PackedWeight& weight_;
  std::unique_ptr<Stream> stream_;
  RigTensor x_, norm_, normed_, product_, out_, k_pages_, v_pages_, block_table_, positions_;
};

class ConcurrencyTest : public ::testing::TestWithParam<BackendOptions> {};

TEST_P(ConcurrencyTest, TwoStreamsFromTwoThreads) {
  BackendRig rig(GetParam());
  const auto weight = rig.Pack({96, 64}, Random(96 * 64, 1), Random(96, 2));
  // One prefills while the other decodes a few rows.
  Worker prefill(rig, *weight, 150, 10);
  Worker decode(rig, *weight, 3, 20);
  ExpectOk(prefill.Run());
  ExpectOk(decode.Run());
  const std::vector<float> prefill_alone = prefill.result();
  const std::vector<float> decode_alone = decode.result();

  absl::Status prefill_status, decode_status;
  std::thread prefill_thread([&] {
    for (int i = 0; i < 40; ++i) prefill_status.Update(prefill.Run());
  });
  std::thread decode_thread([&] {
    for (int i = 0; i < 400; ++i) decode_status.Update(decode.Run());
  });
  prefill_thread.join();
  decode_thread.join();
  ExpectOk(prefill_status);
  ExpectOk(decode_status);
  EXPECT_EQ(prefill.result(), prefill_alone);
  EXPECT_EQ(decode.result(), decode_alone);
}

INSTANTIATE_TEST_SUITE_P(
    Backends, ConcurrencyTest,
    ::testing::Values(BackendOptions{.device = "cpu", .num_threads = 2, .math = MathMode::kF32},
                      BackendOptions{.device = "cpu", .num_threads = 3, .math = MathMode::kBF16},
                      BackendOptions{.device = "reference"}));

}  // namespace
}  // namespace scd::testing
