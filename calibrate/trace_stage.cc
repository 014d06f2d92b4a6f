#include "calibrate/trace_stage.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr char kRecord[] = "traces";
constexpr char kScratchFile[] = "rows.scratch";
constexpr std::size_t kFirstPart = 2;
constexpr std::size_t kPieceFields = 5;

Digest StageDigest(const Digest& inputs, const TraceShape& shape, const TraceStageOptions& options) {
  DigestBuilder builder("scd.calibrate.traces.v2");
  builder.AddDigest(inputs)
      .AddInt(options.native_head)
      .AddInt(options.hold_out_every)
      .AddInt(options.pass_tokens);
  builder.AddInt(static_cast<std::int64_t>(shape.hidden_dtype));
  for (const std::int64_t layer : shape.hidden_layers) builder.AddInt(layer);
  return builder.Finish();
}

// What the stage has done so far.
class TraceStage {
 public:
  TraceStage(const RunContext& context, const TraceShape& shape, const Prefixes& prefixes,
             const TraceStageOptions& options, const Digest& digest, WorkerPool& workers)
      : context_(context),
        shape_(shape),
        prefixes_(prefixes),
        options_(options),
        digest_(digest),
        workers_(workers) {
    StartAnew();
  }

  // Takes up what an earlier run left.
  absl::Status Resume();
  absl::Status Run(PairRunner& runner);
  Traces TakeTraces() && { return std::move(traces_); }

 private:
  void StartAnew();
  absl::Status CheckComputedBy(const WorkRecord& record) const;
  absl::Status Load(const WorkRecord& record);
  absl::Status CheckSpace() const;
  absl::Status Save();
  absl::Status AddPass(absl::Span<const PassChunk> chunks, const TraceTap& producer,
                       const TraceTap& consumer);
  bool HeldOut(std::int64_t prefix) const {
    return IsHeldOut(prefix, static_cast<std::int64_t>(prefixes_.size()), options_.hold_out_every);
  }

  const RunContext& context_;
  const TraceShape& shape_;
  const Prefixes& prefixes_;
  const TraceStageOptions& options_;
  const Digest digest_;
  WorkerPool& workers_;
  Traces traces_;
  std::int64_t prefixes_done_ = 0;
  std::int64_t prefixes_saved_ = 0;
};

absl::Status TraceStage::CheckSpace() const {
  std::int64_t bytes = 0;
  for (std::int64_t p = prefixes_done_; p < static_cast<std::int64_t>(prefixes_.size()); ++p) {
    const auto tokens = static_cast<std::int64_t>(prefixes_[static_cast<std::size_t>(p)].size());
    bytes += TraceStore::Bytes(shape_, tokens, HeldOut(p));
  }
  std::int64_t state = 0;
  for (const PairMoments& moments : traces_.k) state += 2 * moments.num_state_values();
  // The record is written anew before the old one goes.
  bytes += 2 * state * static_cast<std::int64_t>(sizeof(double));
  return context_.work.CheckSpace(static_cast<std::uint64_t>(bytes));
}

void TraceStage::StartAnew() {
  traces_ = Traces();
  for (std::int64_t layer = 0; layer < shape_.num_layers; ++layer) {
    traces_.k.emplace_back(shape_.d_kv, shape_.d_kv, true);
    traces_.v.emplace_back(shape_.d_kv, shape_.d_kv, true);
  }
  prefixes_done_ = prefixes_saved_ = 0;
}

// A record: prefixes done, the text of computed_by as its length and characters, then the pieces.
absl::Status TraceStage::CheckComputedBy(const WorkRecord& record) const {
  const auto malformed = [] { return absl::DataLossError("the record of the traces is too short"); };
  if (record.integers.size() < kFirstPart) return malformed();
  const std::int64_t length = record.integers[1];
  if (length < 0 || length > static_cast<std::int64_t>(record.integers.size() - kFirstPart)) {
    return malformed();
  }
  const auto first = record.integers.begin() + kFirstPart;
  std::string computed_by;
  for (auto it = first; it != first + length; ++it) computed_by += static_cast<char>(*it);
  if (computed_by == options_.computed_by) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "work_dir: ", context_.work.File(kRecord), ": ", record.integers[0], " of ", prefixes_.size(),
      " prefixes were computed by \"", computed_by, "\", this run computes by \"", options_.computed_by,
      "\", and all rows of a run are computed alike. Go on with the former, or give another work_dir"));
}

absl::Status TraceStage::Load(const WorkRecord& record) {
  SCD_RETURN_IF_ERROR(CheckComputedBy(record));
  absl::Span<const double> numbers = record.numbers;
  for (auto* all : {&traces_.k, &traces_.v}) {
    for (PairMoments& moments : *all) {
      const auto size = static_cast<std::size_t>(moments.num_state_values());
      if (numbers.size() < size) return absl::DataLossError("the record of the traces is too short");
      moments.LoadState(numbers.first(size));
      numbers.remove_prefix(size);
    }
  }
  prefixes_done_ = prefixes_saved_ = record.integers[0];
  std::vector<TracePiece> pieces;
  for (std::size_t i = kFirstPart + static_cast<std::size_t>(record.integers[1]);
       i + kPieceFields <= record.integers.size(); i += kPieceFields) {
    const std::int64_t* f = &record.integers[i];
    pieces.push_back(
        {.prefix = f[0], .first_position = f[1], .rows = f[2], .held_out = f[3] != 0, .offset = f[4]});
  }
  SCD_ASSIGN_OR_RETURN(traces_.store,
                       TraceStore::Open(context_.work.File(kScratchFile), shape_, std::move(pieces)));
  return absl::OkStatus();
}

absl::Status TraceStage::Resume() {
  if (const auto record = context_.work.Read(kRecord, digest_); record.ok()) {
    const absl::Status loaded = Load(*record);
    if (absl::IsDataLoss(loaded)) {
      context_.log.Warning(absl::StrCat("starting anew: ", loaded.message()));
      StartAnew();
    } else if (!loaded.ok()) {
      return loaded;
    }
  }
  if (traces_.store == nullptr) {
    SCD_ASSIGN_OR_RETURN(traces_.store, TraceStore::Open(context_.work.File(kScratchFile), shape_, {}));
  }
  if (prefixes_done_ > 0) {
    context_.log.Info(absl::StrCat("traces: ", prefixes_done_, " of ", prefixes_.size(),
                                   " prefixes were done by an earlier run"));
  }
  return CheckSpace();
}

absl::Status TraceStage::Save() {
  if (prefixes_saved_ == prefixes_done_) return absl::OkStatus();
  SCD_RETURN_IF_ERROR(workers_.Run(2 * shape_.num_layers, [&](HostMath& math, std::int64_t job) {
    return (job % 2 == 0 ? traces_.k : traces_.v)[static_cast<std::size_t>(job / 2)].Settle(math);
  }));
  // The rows first: a record never promises rows that the disk does not have.
  SCD_RETURN_IF_ERROR(traces_.store->Flush());
  WorkRecord record;
  record.integers = {prefixes_done_, static_cast<std::int64_t>(options_.computed_by.size())};
  record.integers.insert(record.integers.end(), options_.computed_by.begin(), options_.computed_by.end());
  for (const TracePiece& p : traces_.store->pieces()) {
    record.integers.insert(record.integers.end(),
                           {p.prefix, p.first_position, p.rows, std::int64_t{p.held_out}, p.offset});
  }
  for (const auto* all : {&traces_.k, &traces_.v}) {
    for (const PairMoments& moments : *all) {
      const std::size_t begin = record.numbers.size();
      record.numbers.resize(begin + static_cast<std::size_t>(moments.num_state_values()));
      SCD_RETURN_IF_ERROR(moments.SaveState(absl::MakeSpan(record.numbers).subspan(begin)));
    }
  }
  SCD_RETURN_IF_ERROR(context_.work.Write(kRecord, digest_, record));
  prefixes_saved_ = prefixes_done_;
  return absl::OkStatus();
}

absl::Status TraceStage::AddPass(absl::Span<const PassChunk> chunks, const TraceTap& producer,
                                 const TraceTap& consumer) {
  std::vector<PassChunk> fitted;
  for (PassChunk chunk : chunks) {
    const std::int64_t skipped =
        std::clamp<std::int64_t>(options_.native_head - chunk.first_position, 0, chunk.rows);
    chunk.first_position += skipped;
    chunk.first_row += skipped;
    chunk.rows -= skipped;
    if (chunk.rows == 0) continue;
    const bool held_out = HeldOut(chunk.prefix);
    SCD_RETURN_IF_ERROR(traces_.store->Append({.prefix = chunk.prefix,
                                               .first_position = chunk.first_position,
                                               .rows = chunk.rows,
                                               .held_out = held_out},
                                              producer, consumer, chunk.first_row));
    if (!held_out) fitted.push_back(chunk);
  }
  return workers_.Run(2 * shape_.num_layers, [&](HostMath& math, std::int64_t job) -> absl::Status {
    const std::int64_t layer = job / 2;
    const bool is_k = job % 2 == 0;
    const ConstTensorView a = is_k ? producer.k(layer) : producer.v(layer);
    const ConstTensorView b = is_k ? consumer.k(layer) : consumer.v(layer);
    PairMoments& moments = (is_k ? traces_.k : traces_.v)[static_cast<std::size_t>(layer)];
    for (const PassChunk& chunk : fitted) {
      SCD_RETURN_IF_ERROR(
          moments.Add(math, a.rows(chunk.first_row, chunk.rows), b.rows(chunk.first_row, chunk.rows)));
    }
    return absl::OkStatus();
  });
}

absl::Status TraceStage::Run(PairRunner& runner) {
  const auto total = static_cast<std::int64_t>(prefixes_.size());
  Progress progress(context_.log, context_.progress, "traces", "prefixes", total, prefixes_done_);
  for (const TraceGroup& group : runner.groups()) {
    if (group.end <= prefixes_done_) continue;
    bool touched = false;
    const absl::Status status = runner.Run(
        group, context_.stop,
        [&](absl::Span<const PassChunk> chunks, const TraceTap& producer, const TraceTap& consumer) {
          touched = true;
          return AddPass(chunks, producer, consumer);
        });
    if (!status.ok()) {
      // A group that is half accumulated is done again from the last record.
      if (absl::IsCancelled(status) && !touched) SCD_RETURN_IF_ERROR(Save());
      return status;
    }
    prefixes_done_ = group.end;
    if (prefixes_done_ - prefixes_saved_ >= options_.checkpoint_prefixes || prefixes_done_ == total) {
      SCD_RETURN_IF_ERROR(Save());
    }
    progress.Set(prefixes_done_);
  }
  traces_.num_forward_passes = runner.num_forward_passes();
  return absl::OkStatus();
}

}  // namespace

bool IsHeldOut(std::int64_t prefix, std::int64_t num_prefixes, std::int64_t hold_out_every) {
  if (num_prefixes < hold_out_every) return prefix == num_prefixes - 1;
  return prefix % hold_out_every == hold_out_every - 1;
}

absl::StatusOr<Traces> RunTraceStage(const RunContext& context, const Transformer& producer,
                                     const Transformer& consumer, const TraceShape& shape,
                                     const Prefixes& prefixes, const TraceStageOptions& options,
                                     const Digest& inputs, WorkerPool& workers) {
  TraceStage stage(context, shape, prefixes, options, StageDigest(inputs, shape, options), workers);
  SCD_RETURN_IF_ERROR(stage.Resume());
  SCD_ASSIGN_OR_RETURN(auto runner,
                       PairRunner::Create(producer, consumer, shape, prefixes, options.pass_tokens));
  SCD_RETURN_IF_ERROR(stage.Run(*runner));
  return std::move(stage).TakeTraces();
}

}  // namespace scd
