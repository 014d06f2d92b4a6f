#include "calibrate/self_sampler.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibrate/sampling_batch.h"
#include "common/io/mapped_file.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kBatchPrefixes = 32;

// Ids whose text holds a line end.
std::vector<bool> LineEnds(const Tokenizer& tokenizer) {
  std::vector<bool> out(static_cast<std::size_t>(tokenizer.vocab_size()));
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    out[static_cast<std::size_t>(id)] = tokenizer.TokenBytes(id, false).find('\n') != std::string::npos;
  }
  return out;
}

absl::StatusOr<std::vector<SamplingJob>> MakeJobs(const SamplingRules& rules, const CorpusSource& source,
                                                  const std::vector<SeedPrompt>& prompts) {
  std::vector<SamplingJob> jobs;
  for (std::int64_t i = 0; i < source.limit; ++i) {
    SamplingJob job;
    std::mt19937_64 random(source.seed + static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15u);
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    job.temperature = source.min_temperature + unit * (source.max_temperature - source.min_temperature);
    job.seed = random();
    const SeedPrompt& prompt = prompts[static_cast<std::size_t>(i) % prompts.size()];
    std::int64_t text_tokens = 0;
    bool samples = false;
    for (const SeedPart& part : prompt) {
      SamplingJob::Part out{.ids = {}, .num_sampled = part.num_sampled};
      if (part.num_sampled == 0) {
        SCD_ASSIGN_OR_RETURN(out.ids,
                             rules.tokenizer->Encode(part.text, {.add_default_tokens = job.parts.empty()}));
        text_tokens += static_cast<std::int64_t>(out.ids.size());
      }
      samples = samples || part.num_sampled > 0;
      job.parts.push_back(std::move(out));
    }
    job.max_tokens = rules.max_tokens;
    if (!samples) {
      job.max_tokens = std::min(job.max_tokens, source.num_tokens);
      job.parts.push_back(
          {.ids = {}, .num_sampled = std::max<std::int64_t>(1, source.num_tokens - text_tokens)});
    }
    // Text alone may be longer than what is asked for.
    job.max_tokens = std::max(job.max_tokens, text_tokens + 1);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Digest SourceDigest(const Digest& inputs, const SamplingRules& rules, const CorpusSource& source,
                    absl::string_view seeds) {
  return DigestBuilder("scd.calibrate.sampled.v1")
      .AddDigest(inputs)
      .AddString(seeds)
      .AddInt(source.limit)
      .AddInt(source.num_tokens)
      .AddInt(rules.max_tokens)
      .AddDouble(source.min_temperature)
      .AddDouble(source.max_temperature)
      .AddInt(static_cast<std::int64_t>(source.seed))
      .Finish();
}

WorkRecord ToRecord(const Prefixes& prefixes) {
  WorkRecord record;
  for (const auto& ids : prefixes) {
    record.integers.push_back(static_cast<std::int64_t>(ids.size()));
    record.integers.insert(record.integers.end(), ids.begin(), ids.end());
  }
  return record;
}

Prefixes FromRecord(const WorkRecord& record) {
  Prefixes prefixes;
  auto next = record.integers.begin();
  while (next != record.integers.end()) {
    const auto size = std::min<std::ptrdiff_t>(*next++, record.integers.end() - next);
    prefixes.emplace_back(next, next + size);
    next += size;
  }
  return prefixes;
}

}  // namespace

std::vector<bool> BannedIds(const Tokenizer& tokenizer, std::int64_t vocab_size,
                            const std::vector<std::int32_t>& untranslatable) {
  std::vector<bool> banned(static_cast<std::size_t>(vocab_size));
  for (std::int64_t id = 0; id < vocab_size; ++id) {
    const auto token = static_cast<std::int32_t>(id);
    banned[static_cast<std::size_t>(id)] =
        tokenizer.IsSpecial(token) || !tokenizer.TokenText(token).has_value();
  }
  for (const std::int32_t id : untranslatable) {
    if (id < vocab_size) banned[static_cast<std::size_t>(id)] = true;
  }
  return banned;
}

absl::StatusOr<Prefixes> SamplePrefixes(const RunContext& context, const Transformer& producer,
                                        const Transformer& consumer, const SamplingRules& rules,
                                        const CorpusSource& source, const std::string& record,
                                        const Digest& inputs) {
  if (std::find(rules.banned.begin(), rules.banned.end(), false) == rules.banned.end()) {
    return absl::FailedPreconditionError("self_sample: the models share no token that could be sampled");
  }
  SCD_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(source.path));
  SCD_ASSIGN_OR_RETURN(const std::vector<SeedPrompt> prompts, ParseSeedPrompts(file->text(), source.path));
  SCD_ASSIGN_OR_RETURN(const std::vector<SamplingJob> jobs, MakeJobs(rules, source, prompts));
  const Digest digest = SourceDigest(inputs, rules, source, file->text());

  Prefixes prefixes;
  if (const auto known = context.work.Read(record, digest); known.ok()) prefixes = FromRecord(*known);
  if (!prefixes.empty()) {
    context.log.Info(absl::StrCat("self-sampling: ", prefixes.size(), " of ", source.limit,
                                  " prefixes were made by an earlier run"));
  }
  const std::vector<bool> line_ends = LineEnds(*rules.tokenizer);
  const auto done = [&] { return static_cast<std::int64_t>(prefixes.size()); };
  Progress progress(context.log, context.progress, "self-sampling", "prefixes", source.limit, done());
  while (done() < source.limit) {
    const bool of_producer = done() / kBatchPrefixes % 2 == 0;
    SamplingBatch batch(of_producer ? producer : consumer, rules.banned, line_ends);
    const auto count = static_cast<std::size_t>(std::min(kBatchPrefixes, source.limit - done()));
    SCD_ASSIGN_OR_RETURN(auto made,
                         batch.Run(absl::MakeConstSpan(jobs).subspan(prefixes.size(), count), context.stop));
    for (auto& ids : made) prefixes.push_back(std::move(ids));
    SCD_RETURN_IF_ERROR(context.work.Write(record, digest, ToRecord(prefixes)));
    progress.Set(done());
  }
  return prefixes;
}

}  // namespace scd
