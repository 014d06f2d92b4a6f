#include "calibrate/sampling_batch.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/cache/sequence.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kPageTokens = 16;
constexpr std::int64_t kPassRows = 512;

class Continuation {
 public:
  Continuation(const SamplingJob& job, std::unique_ptr<Sequence> sequence)
      : job_(job), random_(job.seed), sequence_(std::move(sequence)) {
    TakeText();
  }

  bool done() const { return part_ == job_.parts.size(); }
  const std::vector<std::int32_t>& ids() const { return ids_; }
  std::int64_t num_uncomputed() const { return static_cast<std::int64_t>(ids_.size()) - computed_; }

  ForwardChunk Chunk() const {
    return {.sequence = sequence_.get(),
            .tokens = absl::MakeConstSpan(ids_).subspan(static_cast<std::size_t>(computed_)),
            .first_position = computed_,
            .logits = LogitsWanted::kLast};
  }

  void Sample(absl::Span<const float> logits, const std::vector<bool>& banned,
              const std::vector<bool>& ends_line) {
    computed_ = static_cast<std::int64_t>(ids_.size());
    const std::int64_t wanted = job_.parts[part_].num_sampled;
    const std::int32_t id = SampleToken(logits, banned, job_.temperature, random_);
    const auto index = static_cast<std::size_t>(id);
    const bool line_end = index < ends_line.size() && ends_line[index];
    // Only within a prompt: its last part may go on over many lines.
    const bool ends_part = line_end && part_ + 1 < job_.parts.size() && sampled_ >= wanted / 2;
    if (!ends_part) {
      ids_.push_back(id);
      ++sampled_;
    }
    if (ends_part || sampled_ >= wanted) {
      ++part_;
      sampled_ = 0;
      TakeText();
    }
    if (static_cast<std::int64_t>(ids_.size()) >= job_.max_tokens) {
      ids_.resize(static_cast<std::size_t>(job_.max_tokens));
      part_ = job_.parts.size();
    }
    if (done()) sequence_.reset();
  }

 private:
  void TakeText() {
    while (!done() && job_.parts[part_].num_sampled == 0) {
      const auto& text = job_.parts[part_++].ids;
      ids_.insert(ids_.end(), text.begin(), text.end());
    }
  }

  const SamplingJob& job_;
  std::mt19937_64 random_;
  std::vector<std::int32_t> ids_;
  std::size_t part_ = 0;
  std::int64_t sampled_ = 0;   // of this part
  std::int64_t computed_ = 0;  // ids whose K and V are in the sequence
  std::unique_ptr<Sequence> sequence_;
};

}  // namespace

std::int32_t SampleToken(absl::Span<const float> logits, const std::vector<bool>& banned, double temperature,
                         std::mt19937_64& random) {
  const std::size_t size = std::min(logits.size(), banned.size());
  float largest = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < size; ++i) {
    if (!banned[i]) largest = std::max(largest, logits[i]);
  }
  const auto scale = static_cast<float>(1.0 / temperature);
  std::vector<float> weights(size);
  double total = 0;
  for (std::size_t i = 0; i < size; ++i) {
    weights[i] = banned[i] ? 0.0f : std::exp((logits[i] - largest) * scale);
    total += weights[i];
  }
  double left = static_cast<double>(random() >> 11) * 0x1p-53 * total;
  std::size_t last = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (weights[i] == 0.0f) continue;
    last = i;
    left -= weights[i];
    if (left < 0) break;
  }
  return static_cast<std::int32_t>(last);
}

SamplingBatch::SamplingBatch(const Transformer& model, const std::vector<bool>& banned,
                             const std::vector<bool>& ends_line)
    : model_(model), banned_(banned), ends_line_(ends_line) {}

absl::StatusOr<std::vector<std::vector<std::int32_t>>> SamplingBatch::Run(absl::Span<const SamplingJob> jobs,
                                                                          std::stop_token stop) {
  const ModelConfig& config = model_.config();
  std::int64_t pages = 0, rows = kPassRows;
  for (const SamplingJob& job : jobs) {
    pages += (job.max_tokens + kPageTokens - 1) / kPageTokens;
    rows = std::max(rows, job.max_tokens);
  }
  SCD_ASSIGN_OR_RETURN(const auto cache, PagedKvCache::Create(model_.backend(),
                                                              {.num_layers = config.num_layers,
                                                               .num_kv_heads = config.num_kv_heads,
                                                               .head_dim = config.head_dim,
                                                               .page_tokens = kPageTokens},
                                                              pages));
  SCD_ASSIGN_OR_RETURN(const auto workspace,
                       model_.CreateWorkspace(rows, static_cast<std::int64_t>(jobs.size())));
  std::vector<Continuation> open;  // their sequences go before the cache
  open.reserve(jobs.size());
  for (const SamplingJob& job : jobs) {
    SCD_ASSIGN_OR_RETURN(auto sequence, Sequence::Create(*cache, job.max_tokens));
    open.emplace_back(job, std::move(sequence));
  }
  for (;;) {
    std::vector<Continuation*> running;
    std::vector<ForwardChunk> chunks;
    std::int64_t used = 0;
    for (Continuation& c : open) {
      if (c.done() || used + c.num_uncomputed() > rows) continue;
      used += c.num_uncomputed();
      running.push_back(&c);
      chunks.push_back(c.Chunk());
    }
    if (running.empty()) break;
    SCD_RETURN_IF_ERROR(model_.Forward(*workspace, chunks, {.tap = nullptr, .cancel = stop}));
    const ConstTensorView logits = workspace->logits();
    for (std::size_t i = 0; i < running.size(); ++i) {
      running[i]->Sample(
          {logits.row<float>(static_cast<std::int64_t>(i)), static_cast<std::size_t>(logits.dim(1))}, banned_,
          ends_line_);
    }
  }
  std::vector<std::vector<std::int32_t>> out;
  for (const Continuation& c : open) out.push_back(c.ids());
  return out;
}

}  // namespace scd
