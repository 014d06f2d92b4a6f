#include "calibrate/calibration.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibrate/bundle_tensors.h"
#include "calibrate/code_samples.h"
#include "calibrate/corpus_stage.h"
#include "calibrate/device_memory.h"
#include "calibrate/fitted_pair.h"
#include "calibrate/fused_stage.h"
#include "calibrate/held_out_evaluator.h"
#include "calibrate/model_pair.h"
#include "calibrate/output_check.h"
#include "calibrate/pair_manifest.h"
#include "calibrate/patch_choice.h"
#include "calibrate/patch_stage.h"
#include "calibrate/quality_stage.h"
#include "calibrate/rate_stage.h"
#include "calibrate/reuse_stage.h"
#include "calibrate/selective_stage.h"
#include "calibrate/stage_clock.h"
#include "calibrate/trace_stage.h"
#include "common/bundle/bundle.h"
#include "common/bundle/bundle_writer.h"
#include "common/model/loaded_pair.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Layers whose attention inputs are kept: every layer where codes of all are made from them or sampled, else
// those that may become candidates.
std::vector<std::int64_t> HiddenLayers(const CalibrateConfig& config, std::int64_t num_layers) {
  const PatchConfig& patch = config.patch;
  const bool all = *config.fused.rank > 0 || !config.entropy.distortions.empty();
  std::vector<std::int64_t> layers;
  if (!all && patch.candidates) {
    layers = *patch.candidates;
    std::sort(layers.begin(), layers.end());
  } else if (all || (!(patch.layers && patch.layers->empty()) && (patch.layers || patch.count != 0))) {
    layers.resize(static_cast<std::size_t>(num_layers));
    std::iota(layers.begin(), layers.end(), std::int64_t{0});
  }
  return layers;
}

// What changes the numbers that models compute by more than their last bits: the device, and how products are
// rounded.
std::string HowComputed(const Backend& backend) {
  const std::string all = backend.Describe();
  const std::size_t products = all.rfind("products in ");
  return absl::StrCat(std::string(backend.name()), ", ",
                      products == std::string::npos ? all : all.substr(products));
}

// The GPU's backend for the products of the fits, with its memory checked; null where there is none.
absl::StatusOr<std::unique_ptr<Backend>> OpenMathDevice(const CalibrateConfig& config,
                                                        const ModelConfig& model) {
  SCD_ASSIGN_OR_RETURN(auto device, CreateMathBackend(config.backend));
  if (device != nullptr) SCD_RETURN_IF_ERROR(CheckDeviceMemory(*device, DeviceMemoryOf(config, model)));
  return device;
}

// One run, from opened models on.
class Calibration {
 public:
  Calibration(const CalibrateConfig& config, const ModelPair& pair, const RunContext& context)
      : config_(config), pair_(pair), context_(context) {}

  absl::StatusOr<Digest> Run();

 private:
  absl::Status MakeTraces();
  absl::Status ProfileSelective();
  absl::Status FitReuse();
  absl::Status FitPatch();
  absl::Status Choose();
  absl::Status FitFused();
  absl::Status FitRates();
  absl::Status MeasureQuality();
  absl::StatusOr<std::unique_ptr<HeldOutEvaluator>> MakeEvaluator(std::int64_t max_prefixes);
  // Writes what is fitted so far and opens it as a daemon would.
  absl::StatusOr<std::unique_ptr<Bundle>> WriteDraft(const FittedPair& fitted);

  const CalibrateConfig& config_;
  const ModelPair& pair_;
  const RunContext& context_;
  LoadedPair loaded_;
  std::unique_ptr<Corpus> corpus_;
  std::unique_ptr<WorkerPool> workers_;
  Traces traces_;
  FittedPair fitted_;
  Digest trace_inputs_;
};

absl::Status Calibration::MakeTraces() {
  StageClock clock(context_.log, "traces");
  const ModelConfig& model = pair_.consumer.config;
  const TraceShape shape{.num_layers = model.num_layers,
                         .d_kv = model.d_kv(),
                         .hidden = model.hidden_size,
                         .hidden_layers = HiddenLayers(config_, model.num_layers),
                         .hidden_dtype = config_.trace.scratch_dtype};
  const TraceStageOptions options{.native_head = config_.native_head,
                                  .hold_out_every = config_.corpus.hold_out_every,
                                  .pass_tokens = config_.trace.pass_tokens,
                                  .checkpoint_prefixes = config_.trace.checkpoint_prefixes,
                                  .computed_by = HowComputed(*loaded_.backend)};
  const Digest inputs = DigestBuilder("scd.calibrate.inputs.v2")
                            .AddDigest(pair_.digest())
                            .AddDigest(corpus_->digest())
                            .AddInt(options.native_head)
                            .AddInt(options.hold_out_every)
                            .AddInt(static_cast<std::int64_t>(shape.hidden_dtype))
                            .Finish();
  trace_inputs_ =
      DigestBuilder("scd.calibrate.computed.v1").AddDigest(inputs).AddString(options.computed_by).Finish();
  SCD_ASSIGN_OR_RETURN(traces_, RunTraceStage(context_, *loaded_.producer, *loaded_.consumer, shape,
                                              corpus_->prefixes(), options, inputs, *workers_));
  context_.log.Info(absl::StrCat("traces: ", traces_.num_forward_passes, " forward passes, ",
                                 traces_.store->NumRows(false), " rows to fit on, ",
                                 traces_.store->NumRows(true), " held out"));
  return absl::OkStatus();
}

// The last stage that needs the producer.
absl::Status Calibration::ProfileSelective() {
  fitted_.selective.default_group = config_.selective.default_group;
  if (!config_.selective.profile) return absl::OkStatus();
  StageClock clock(context_.log, "selective profile");
  SCD_ASSIGN_OR_RETURN(const auto evaluator, MakeEvaluator(config_.selective.prefixes));
  SCD_ASSIGN_OR_RETURN(fitted_.selective,
                       RunSelectiveStage(context_, config_.selective, *loaded_.producer, *evaluator));
  return absl::OkStatus();
}

absl::Status Calibration::FitReuse() {
  StageClock clock(context_.log, "reuse fits");
  const ReuseOptions options{.fit = config_.reuse_fit,
                             .ridge_lambda = config_.ridge_lambda,
                             .max_rank_k = config_.ranks.max_k,
                             .max_rank_v = config_.ranks.max_v,
                             .rank_k = config_.ranks.k,
                             .rank_v = config_.ranks.v};
  SCD_ASSIGN_OR_RETURN(fitted_.reuse, RunReuseStage(context_, traces_, options, *workers_));
  double k = 0, v = 0;
  for (const LayerReuse& layer : fitted_.reuse) {
    k += layer.error_k / static_cast<double>(fitted_.reuse.size());
    v += layer.error_v / static_cast<double>(fitted_.reuse.size());
  }
  context_.log.Info(
      absl::StrFormat("held-out error of K at rank %d: %.4f, of V at rank %d: %.4f (mean over layers)",
                      config_.ranks.k, k, config_.ranks.v, v));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<HeldOutEvaluator>> Calibration::MakeEvaluator(std::int64_t max_prefixes) {
  return HeldOutEvaluator::Create(*loaded_.consumer, *traces_.store, corpus_->prefixes(),
                                  {.native_head = config_.native_head,
                                   .native_tail = config_.native_tail,
                                   .scored_tokens = config_.measure.scored_tokens,
                                   .max_prefixes = max_prefixes},
                                  context_.stop);
}

absl::Status Calibration::FitPatch() {
  const std::int64_t num_layers = pair_.consumer.config.num_layers;
  {
    StageClock clock(context_.log, "candidate layers");
    std::unique_ptr<HeldOutEvaluator> evaluator;
    if (NeedsSensitivity(config_.patch, num_layers)) {
      SCD_ASSIGN_OR_RETURN(const auto draft, WriteDraft(fitted_));
      SCD_ASSIGN_OR_RETURN(evaluator, MakeEvaluator(config_.measure.sweep_prefixes));
      SCD_RETURN_IF_ERROR(evaluator->UseBundle(*draft));
    }
    SCD_ASSIGN_OR_RETURN(fitted_.candidates,
                         ChooseCandidates(context_, config_.patch, num_layers, evaluator.get()));
  }
  StageClock clock(context_.log, "aligners");
  const PatchOptions options{
      .ridge_lambda = config_.ridge_lambda, .ranks = config_.ranks.h, .training = config_.aligner};
  SCD_ASSIGN_OR_RETURN(fitted_.patch, RunPatchStage(context_, *traces_.store, fitted_.candidates, options,
                                                    trace_inputs_, config_.backend.num_threads));
  return absl::OkStatus();
}

absl::Status Calibration::Choose() {
  if (fitted_.candidates.empty()) return absl::OkStatus();
  StageClock clock(context_.log, "choice of Patch layers");
  SCD_ASSIGN_OR_RETURN(const auto draft, WriteDraft(fitted_));
  SCD_ASSIGN_OR_RETURN(const auto evaluator, MakeEvaluator(config_.measure.sweep_prefixes));
  SCD_RETURN_IF_ERROR(evaluator->UseBundle(*draft));
  SCD_ASSIGN_OR_RETURN(fitted_.choice,
                       ChoosePatchLayers(context_, config_.patch, fitted_.candidates, *evaluator));
  return absl::OkStatus();
}

absl::Status Calibration::FitFused() {
  if (*config_.fused.rank == 0) return absl::OkStatus();
  StageClock clock(context_.log, "fused translators");
  const FusedOptions options{
      .ridge_lambda = config_.ridge_lambda,
      .rank = *config_.fused.rank,
      .group = config_.fused.group,
      .distortion = config_.entropy.distortions.empty() ? 0.0 : config_.entropy.default_distortion};
  SCD_ASSIGN_OR_RETURN(fitted_.fused, RunFusedStage(context_, *traces_.store, *loaded_.consumer, options,
                                                    trace_inputs_, config_.backend.num_threads));
  const std::vector<double>& distortions = config_.entropy.distortions;
  if (config_.fused.cut_unsent && !distortions.empty()) CutUnsent(distortions.front(), &fitted_.fused);
  double plain = 0, coded = 0;
  const auto num_layers = static_cast<double>(pair_.consumer.config.num_layers);
  for (const FusedGroup& group : fitted_.fused) {
    for (const LayerFused& layer : group.each) {
      plain += layer.plain_error / num_layers;
      coded += layer.coded_error / num_layers;
    }
  }
  context_.log.Info(absl::StrFormat(
      "fused: %d columns for %d layers; held-out error of K and V %.4f, of rounded codes %.4f (mean over "
      "layers)",
      fitted_.fused.front().linear.translator.rank, options.group, plain, coded));
  return absl::OkStatus();
}

absl::Status Calibration::FitRates() {
  if (config_.entropy.distortions.empty()) return absl::OkStatus();
  StageClock clock(context_.log, "rates");
  SCD_ASSIGN_OR_RETURN(const auto samples, SampleCodes(context_, *traces_.store, *loaded_.producer,
                                                       *loaded_.consumer, fitted_, *workers_));
  SCD_ASSIGN_OR_RETURN(const auto evaluator, MakeEvaluator(config_.measure.quality_prefixes));
  return RunRateStage(
      context_, config_.entropy, samples, *evaluator,
      [this](const FittedPair& fitted) { return WriteDraft(fitted); }, *workers_, &fitted_);
}

absl::Status Calibration::MeasureQuality() {
  StageClock clock(context_.log, "held-out quality");
  SCD_ASSIGN_OR_RETURN(const auto draft, WriteDraft(fitted_));
  SCD_ASSIGN_OR_RETURN(const auto evaluator, MakeEvaluator(config_.measure.quality_prefixes));
  SCD_ASSIGN_OR_RETURN(fitted_.quality, RunQualityStage(context_, *draft, fitted_.choice.layers,
                                                        !fitted_.fused.empty(), *evaluator));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Bundle>> Calibration::WriteDraft(const FittedPair& fitted) {
  const std::string folder = context_.work.File("draft");
  const BundleManifest manifest = MakeManifest(config_, pair_, *corpus_, fitted);
  SCD_RETURN_IF_ERROR(WriteBundle(folder, manifest, BundleTensorsOf(fitted)).status());
  return Bundle::Open(folder);
}

absl::StatusOr<Digest> Calibration::Run() {
  StageClock clock(context_.log, "calibration");
  SCD_ASSIGN_OR_RETURN(workers_, WorkerPool::Create(config_.backend.num_threads,
                                                    2 * pair_.consumer.config.num_layers, context_.device));
  {
    StageClock load_clock(context_.log, "loading");
    SCD_ASSIGN_OR_RETURN(
        loaded_, LoadPair(pair_.producer, pair_.consumer, config_.backend, MaxPrefixTokens(config_, pair_)));
  }
  context_.log.Info(absl::StrCat("backend: ", loaded_.backend->Describe()));
  {
    StageClock corpus_clock(context_.log, "corpus");
    SCD_ASSIGN_OR_RETURN(Corpus corpus, RunCorpusStage(context_, config_, pair_, loaded_));
    corpus_ = std::make_unique<Corpus>(std::move(corpus));
  }
  context_.log.Info(absl::StrCat("corpus: ", corpus_->description()));
  SCD_RETURN_IF_ERROR(MakeTraces());
  SCD_RETURN_IF_ERROR(ProfileSelective());
  // Codes for the entropy tables are made from the producer's K and V.
  if (config_.entropy.distortions.empty()) loaded_.producer.reset();
  SCD_RETURN_IF_ERROR(FitReuse());
  SCD_RETURN_IF_ERROR(FitPatch());
  SCD_RETURN_IF_ERROR(Choose());
  SCD_RETURN_IF_ERROR(FitFused());
  SCD_RETURN_IF_ERROR(FitRates());
  SCD_RETURN_IF_ERROR(MeasureQuality());

  SCD_ASSIGN_OR_RETURN(
      const Digest digest,
      WriteBundle(config_.output, MakeManifest(config_, pair_, *corpus_, fitted_), BundleTensorsOf(fitted_)));
  SCD_ASSIGN_OR_RETURN(const auto bundle, Bundle::Open(config_.output));
  SCD_RETURN_IF_ERROR(bundle->CheckProducer(pair_.producer.digest, pair_.producer.tokenizer->digest()));
  SCD_RETURN_IF_ERROR(bundle->CheckConsumer(pair_.consumer.digest, pair_.consumer.tokenizer->digest()));
  if (bundle->digest() != digest) {
    return absl::DataLossError(absl::StrCat(config_.output, ": changed while it was written"));
  }
  return digest;
}

}  // namespace

absl::Status CheckCalibration(CalibrateConfig config) {
  SCD_ASSIGN_OR_RETURN(const ModelPair pair, OpenModelPair(config));
  SCD_RETURN_IF_ERROR(ResolveForModel(pair.consumer.config, &config));
  SCD_RETURN_IF_ERROR(OpenMathDevice(config, pair.consumer.config).status());
  Corpus corpus = MakeCorpus(config, pair);
  for (const CorpusSource& source : config.corpus.sources)
    SCD_RETURN_IF_ERROR(AddFileSource(source, &corpus));
  SCD_RETURN_IF_ERROR(CheckOutput(config.output));
  return CheckWritable("work_dir", config.work_dir);
}

absl::StatusOr<Digest> RunCalibration(CalibrateConfig config, Log& log, const ProgressStyle& progress,
                                      std::stop_token stop) {
  SCD_RETURN_IF_ERROR(CheckOutput(config.output));
  SCD_ASSIGN_OR_RETURN(const ModelPair pair, OpenModelPair(config));
  SCD_RETURN_IF_ERROR(ResolveForModel(pair.consumer.config, &config));
  SCD_ASSIGN_OR_RETURN(const auto device, OpenMathDevice(config, pair.consumer.config));
  log.Info(absl::StrCat("producer: ", pair.producer.description));
  log.Info(absl::StrCat("consumer: ", pair.consumer.description));
  SCD_ASSIGN_OR_RETURN(const auto work, WorkFolder::Open(config.work_dir));
  const RunContext context{.log = log,
                           .work = *work,
                           .stop = std::move(stop),
                           .progress = progress,
                           .device = {.backend = device.get()}};
  SCD_ASSIGN_OR_RETURN(const Digest digest, Calibration(config, pair, context).Run());
  log.Info(absl::StrCat(config.output, ": bundle ", digest.ToHex()));
  if (!config.keep_work) work->Clear();
  return digest;
}

}  // namespace scd
