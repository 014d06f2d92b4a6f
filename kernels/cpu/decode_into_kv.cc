// Reuse codes into KV pages: threads take tiles of tokens, so that no tensor of all tokens is written to
// memory.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "hwy/aligned_allocator.h"
#include "kernels/checks.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/decode_tile.h"
#include "kernels/cpu/first_error.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Below this many multiplications waking another thread costs more than it saves.
constexpr std::int64_t kMinSharedProducts = 1 << 17;

// Tokens of a tile, and of which it holds a multiple, where another kernel makes the product: large enough
// that handing it over does not count.
constexpr std::int64_t kForeignTileTokens = 128;
constexpr std::int64_t kForeignTileGranule = 16;

// Tiles of a weight that multiplies in a layout of its own: the same steps around its product.
class ForeignTiles {
 public:
  static absl::StatusOr<ForeignTiles> Create(const cpu::CpuWeight& weight, const cpu::DecodeTask& task) {
    // A pool of one thread has no worker: what is handed to it runs on the thread that calls.
    SCD_ASSIGN_OR_RETURN(auto pool, cpu::ThreadPool::Create(1));
    return ForeignTiles(weight, task, std::move(pool));
  }

  // scratch as for DecodeTile.
  absl::Status Decode(cpu::Range tokens, float* scratch) const {
    const std::int64_t count = tokens.end - tokens.begin;
    const TensorView rows(scratch, DType::kF32, {count, task_->d_kv()});
    const TensorView codes(scratch + count * task_->d_kv(), DType::kF32, {count, task_->codes.dim(1)});
    cpu::ConvertRows(task_->codes.rows(tokens.begin, count), codes, 0, count);
    SCD_RETURN_IF_ERROR(weight_->Multiply(*pool_, codes, rows, {0, task_->d_kv()}, false));
    cpu::FinishTile(*task_, tokens, rows.as<float>(), task_->d_kv());
    return absl::OkStatus();
  }

 private:
  ForeignTiles(const cpu::CpuWeight& weight, const cpu::DecodeTask& task,
               std::unique_ptr<cpu::ThreadPool> pool)
      : weight_(&weight), task_(&task), pool_(std::move(pool)) {}

  const cpu::CpuWeight* weight_;
  const cpu::DecodeTask* task_;
  std::unique_ptr<cpu::ThreadPool> pool_;
};

}  // namespace

absl::Status CpuBackend::DecodeIntoKv(Stream& /*stream*/, ConstTensorView codes, const PackedWeight& decoder,
                                      KvPart part, ConstTensorView positions, const RopeTable* rope,
                                      const PagedKv& kv) {
  SCD_RETURN_IF_ERROR(CheckDecodeIntoKv(codes, decoder, positions, rope, kv, device()));
  SCD_RETURN_IF_ERROR(CheckPositions("DecodeIntoKv", positions, kv));
  if (rope != nullptr) {
    SCD_RETURN_IF_ERROR(CheckIndices("DecodeIntoKv", "positions", positions, rope->cos.dim(0)));
  }
  const auto* weight = dynamic_cast<const cpu::CpuWeight*>(&decoder);
  if (weight == nullptr) {
    return absl::InvalidArgumentError("DecodeIntoKv: decoder was packed by another backend");
  }
  const float* const panels = weight->Panels();
  const cpu::DecodeTask task{.codes = codes,
                             .round_codes = weight->rounds_x(),
                             .panels = panels,
                             .bias = panels == nullptr ? nullptr : weight->whole_bias(),
                             .positions = positions.as<std::int32_t>(),
                             .rope = rope,
                             .slots = cpu::KvSlots(kv, part)};
  std::optional<ForeignTiles> foreign;
  if (panels == nullptr) {
    SCD_ASSIGN_OR_RETURN(foreign, ForeignTiles::Create(*weight, task));
  }

  const std::int64_t tokens = codes.dim(0);
  const std::int64_t products = tokens * task.d_kv() * codes.dim(1);
  const std::int64_t runners =
      products < kMinSharedProducts ? 1 : std::min<std::int64_t>(pool_->num_threads(), tokens);
  // Tiles of one size, as many as there are runners or a multiple of that.
  const std::int64_t most = panels == nullptr ? kForeignTileTokens : cpu::kDecodeTileTokens;
  const std::int64_t granule = panels == nullptr ? kForeignTileGranule : cpu::kDecodeTileGranule;
  const std::int64_t rounds = cpu::Partition::CeilDiv(tokens, runners * most);
  const cpu::Partition tiles(tokens, runners * rounds, granule);
  std::atomic<std::int64_t> next{0};
  cpu::FirstError error;
  pool_->ParallelFor(runners, [&](std::int64_t) {
    auto scratch = hwy::AllocateAligned<float>(cpu::DecodeScratchFloats(task, most));
    if (scratch == nullptr)
      return error.Update(absl::ResourceExhaustedError("no memory for a tile of codes"));
    for (std::int64_t i = next.fetch_add(1); i < tiles.num_pieces(); i = next.fetch_add(1)) {
      if (foreign.has_value()) {
        error.Update(foreign->Decode(tiles[i], scratch.get()));
      } else {
        cpu::DecodeTile(task, tiles[i], scratch.get());
      }
    }
  });
  return error.status();
}

}  // namespace scd
