#include "common/bundle/bundle.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/bundle/bundle_layout.h"
#include "common/io/finite.h"
#include "common/io/mapped_file.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

absl::Status CheckTensors(const SafetensorsFile& file, const BundleManifest& manifest) {
  std::set<std::string> known;
  for (BundleTensor& tensor : BundleTensors(manifest)) {
    SCD_ASSIGN_OR_RETURN(const ConstTensorView view, file.Get(tensor.name, tensor.dtype, tensor.shape));
    const auto bytes = static_cast<std::size_t>(view.num_elements()) * DTypeBytes(tensor.dtype);
    if (tensor.dtype == DType::kF32 && !AllFinite(DType::kF32, {view.as<std::byte>(), bytes})) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": ", tensor.name, ": holds a number that is not finite"));
    }
    known.insert(std::move(tensor.name));
  }
  for (const auto& [name, view] : file.tensors()) {
    if (!known.contains(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": ", absl::CHexEscape(name), ": the manifest knows no such tensor"));
    }
  }
  return absl::OkStatus();
}

EntropyTables TablesOf(const ConstTensorView& steps, const ConstTensorView& frequencies, std::int64_t rank) {
  return {.steps = {steps.as<float>(), static_cast<std::size_t>(rank)},
          .frequencies = {frequencies.as<std::int32_t>(), static_cast<std::size_t>(rank * kEntropySymbols)}};
}

absl::Status CheckTables(const SafetensorsFile& file, const BundleManifest& manifest) {
  for (std::int64_t layer = 0; layer < manifest.num_layers; ++layer) {
    for (const SentKind& fitted : FittedKinds(manifest, layer)) {
      for (std::size_t i = 0; i < manifest.rate_points.size(); ++i) {
        const auto point = static_cast<std::int64_t>(i);
        const std::string steps_name = EntropyTensorName(layer, fitted.kind, point, "steps");
        SCD_ASSIGN_OR_RETURN(const ConstTensorView steps, file.Get(steps_name));
        SCD_ASSIGN_OR_RETURN(const ConstTensorView frequencies,
                             file.Get(EntropyTensorName(layer, fitted.kind, point, "frequencies")));
        if (const absl::Status status = CheckEntropyTables(TablesOf(steps, frequencies, fitted.rank));
            !status.ok()) {
          return absl::InvalidArgumentError(
              absl::StrCat(file.path(), ": ", steps_name, " and its frequencies: ", status.message()));
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckModel(const std::string& folder, absl::string_view side, const BundleModel& fitted,
                        const Digest& model, const Digest& tokenizer) {
  const auto differs = [&](absl::string_view what, const Digest& expected, const Digest& given) {
    return absl::FailedPreconditionError(absl::StrCat(folder, ": fitted for another ", side, " ", what,
                                                      ": expected ", expected.ToHex(), " (\"",
                                                      fitted.description, "\"), got ", given.ToHex()));
  };
  if (model != fitted.digest) return differs("model", fitted.digest, model);
  if (tokenizer != fitted.tokenizer_digest) return differs("tokenizer", fitted.tokenizer_digest, tokenizer);
  return absl::OkStatus();
}

}  // namespace

Bundle::Bundle(std::string folder, BundleManifest manifest, Digest digest,
               std::unique_ptr<SafetensorsFile> tensors)
    : folder_(std::move(folder)),
      manifest_(std::move(manifest)),
      digest_(digest),
      tensors_(std::move(tensors)) {}

absl::StatusOr<std::unique_ptr<Bundle>> Bundle::Open(const std::string& folder) {
  const std::string manifest_path = absl::StrCat(folder, "/", kManifestFile);
  const std::string tensors_path = absl::StrCat(folder, "/", kTensorsFile);
  SCD_ASSIGN_OR_RETURN(const auto manifest_file, MappedFile::Open(manifest_path));
  SCD_ASSIGN_OR_RETURN(BundleManifest manifest, ParseManifest(manifest_file->text(), manifest_path));
  const Digest digest = DigestBuilder("scd.bundle.v1").AddBytes(manifest_file->bytes()).Finish();

  // The file's structure comes first: of a truncated file the reader says more than a digest could.
  SCD_ASSIGN_OR_RETURN(auto tensors, SafetensorsFile::Open(tensors_path));
  SCD_ASSIGN_OR_RETURN(const auto tensors_file, MappedFile::Open(tensors_path));
  const Digest tensors_digest = TensorsDigest(tensors_file->bytes());
  if (tensors_digest != manifest.tensors_digest) {
    return absl::DataLossError(absl::StrCat(tensors_path, ": changed since it was written: its digest is ",
                                            tensors_digest.ToHex(), ", ", kManifestFile, " names ",
                                            manifest.tensors_digest.ToHex()));
  }
  SCD_RETURN_IF_ERROR(CheckTensors(*tensors, manifest));
  SCD_RETURN_IF_ERROR(CheckTables(*tensors, manifest));
  return std::unique_ptr<Bundle>(new Bundle(folder, std::move(manifest), digest, std::move(tensors)));
}

Digest Bundle::TensorsDigest(absl::Span<const std::byte> file) {
  return DigestBuilder("scd.bundle.tensors.v1").AddBytes(file).Finish();
}

absl::Status Bundle::CheckProducer(const Digest& model, const Digest& tokenizer) const {
  return CheckModel(folder_, "producer", manifest_.producer, model, tokenizer);
}

absl::Status Bundle::CheckConsumer(const Digest& model, const Digest& tokenizer) const {
  return CheckModel(folder_, "consumer", manifest_.consumer, model, tokenizer);
}

absl::StatusOr<ReuseTranslator> Bundle::Reuse(std::int64_t layer, CodeKind kind, std::int64_t rank) const {
  if (kind != CodeKind::kK && kind != CodeKind::kV) {
    return absl::InvalidArgumentError("Reuse translators exist for k and v");
  }
  const std::int64_t largest = kind == CodeKind::kK ? manifest_.max_rank_k : manifest_.max_rank_v;
  if (layer < 0 || layer >= manifest_.num_layers || rank < 1 || rank > largest) {
    return absl::InvalidArgumentError(absl::StrCat(folder_, ": no Reuse translator of rank ", rank,
                                                   " for layer ", layer, ": ranks are 1 to ", largest,
                                                   ", layers 0 to ", manifest_.num_layers - 1));
  }
  ReuseTranslator out;
  SCD_ASSIGN_OR_RETURN(out.encoder, tensors_->Get(TranslatorTensorName(layer, kind, "encoder")));
  SCD_ASSIGN_OR_RETURN(out.encoder_bias, tensors_->Get(TranslatorTensorName(layer, kind, "encoder_bias")));
  SCD_ASSIGN_OR_RETURN(out.decoder, tensors_->Get(TranslatorTensorName(layer, kind, "decoder")));
  SCD_ASSIGN_OR_RETURN(out.decoder_bias, tensors_->Get(TranslatorTensorName(layer, kind, "decoder_bias")));
  out.encoder = out.encoder.rows(0, rank);
  out.encoder_bias = out.encoder_bias.rows(0, rank);
  out.decoder = out.decoder.columns(0, rank);
  return out;
}

absl::StatusOr<PatchTranslator> Bundle::Patch(std::int64_t layer, std::int64_t rank) const {
  const auto& layers = manifest_.candidate_layers;
  const auto& ranks = manifest_.ranks_h;
  if (std::find(layers.begin(), layers.end(), layer) == layers.end() ||
      std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) {
    return absl::NotFoundError(absl::StrCat(folder_, ": no Patch translator of rank ", rank, " for layer ",
                                            layer, ": ranks are [", absl::StrJoin(ranks, ", "), "], layers [",
                                            absl::StrJoin(layers, ", "), "]"));
  }
  PatchTranslator out;
  const auto translator = [&](std::string_view part) {
    return tensors_->Get(TranslatorTensorName(layer, CodeKind::kH, part));
  };
  const auto aligner = [&](std::string_view part) {
    return tensors_->Get(AlignerTensorName(layer, rank, part));
  };
  SCD_ASSIGN_OR_RETURN(out.encoder, translator("encoder"));
  SCD_ASSIGN_OR_RETURN(out.encoder_bias, translator("encoder_bias"));
  SCD_ASSIGN_OR_RETURN(out.decoder, translator("decoder"));
  SCD_ASSIGN_OR_RETURN(out.decoder_bias, translator("decoder_bias"));
  SCD_ASSIGN_OR_RETURN(out.mlp_in, aligner("mlp_in"));
  SCD_ASSIGN_OR_RETURN(out.mlp_in_bias, aligner("mlp_in_bias"));
  SCD_ASSIGN_OR_RETURN(out.mlp_out, aligner("mlp_out"));
  SCD_ASSIGN_OR_RETURN(out.mlp_out_bias, aligner("mlp_out_bias"));
  out.encoder = out.encoder.rows(0, rank);
  out.encoder_bias = out.encoder_bias.rows(0, rank);
  out.decoder = out.decoder.columns(0, rank);
  return out;
}

absl::StatusOr<FusedTranslator> Bundle::Fused(std::int64_t layer) const {
  if (manifest_.fused.rank == 0 || layer < 0 || layer >= manifest_.num_layers) {
    return absl::NotFoundError(absl::StrCat(folder_, ": no Fused translator for layer ", layer));
  }
  const auto part = [&](std::string_view name) {
    return tensors_->Get(TranslatorTensorName(layer, CodeKind::kKV, name));
  };
  FusedTranslator out;
  SCD_ASSIGN_OR_RETURN(out.encoder, part("encoder"));
  SCD_ASSIGN_OR_RETURN(out.encoder_bias, tensors_->Get(TranslatorTensorName(manifest_.FusedGroup(layer).last,
                                                                            CodeKind::kKV, "encoder_bias")));
  SCD_ASSIGN_OR_RETURN(out.decoder, part("decoder"));
  SCD_ASSIGN_OR_RETURN(out.decoder_bias, part("decoder_bias"));
  return out;
}

absl::StatusOr<EntropyTables> Bundle::Entropy(std::int64_t layer, CodeKind kind, std::int64_t rank,
                                              std::int64_t rate_point) const {
  const std::vector<SentKind> fitted = FittedKinds(manifest_, layer);
  const auto found =
      std::find_if(fitted.begin(), fitted.end(), [kind](const SentKind& sent) { return sent.kind == kind; });
  if (layer < 0 || layer >= manifest_.num_layers || found == fitted.end() || rank < 1 || rank > found->rank ||
      rate_point < 0 || rate_point >= static_cast<std::int64_t>(manifest_.rate_points.size())) {
    return absl::NotFoundError(absl::StrCat(folder_, ": no entropy tables for ",
                                            std::string(CodeKindName(kind)), " codes of layer ", layer,
                                            " at rank ", rank, ", rate point ", rate_point));
  }
  SCD_ASSIGN_OR_RETURN(const ConstTensorView steps,
                       tensors_->Get(EntropyTensorName(layer, kind, rate_point, "steps")));
  SCD_ASSIGN_OR_RETURN(const ConstTensorView frequencies,
                       tensors_->Get(EntropyTensorName(layer, kind, rate_point, "frequencies")));
  return TablesOf(steps, frequencies, rank);
}

}  // namespace scd
