#include "common/translate/layer_rebuilder.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/translate/group_decoder.h"
#include "common/translate/patch_decoder.h"
#include "common/translate/plan_entropy.h"
#include "common/translate/rebuilder_workspace.h"
#include "common/wire/payload_format.h"
#include "kernels/status_macros.h"
#include "kernels/weight_part.h"

namespace scd {
namespace {

// The packed translators of one layer.
struct LayerDecoders {
  std::unique_ptr<PackedWeight> k, v;  // Reuse, Fused: [d_kv, rank]
  // Instead, for the layer that sends the code of Fused ones to another device, where one large product is
  // worth more than many small ones: [layers 2 d_kv, rank], K above V, cut between all.
  std::unique_ptr<PackedWeight> group;
  std::unique_ptr<PatchDecoder> patch;                                                         // Patch
  std::array<std::unique_ptr<EntropyCoder>, static_cast<std::size_t>(kNumCodeKinds)> entropy;  // by kind

  const EntropyCoder* EntropyOf(CodeKind kind) const {
    return entropy[static_cast<std::size_t>(kind) - 1].get();
  }
};

absl::Status CheckProjection(const BundleManifest& m, std::int64_t layer, const KvProjection& p) {
  const auto fits = [&](const WeightPart& part) {
    return part.weight != nullptr && part.weight->in_features() == m.hidden_size && part.width() == m.d_kv();
  };
  if (p.num_kv_heads == m.num_kv_heads && p.head_dim == m.head_dim && fits(p.k) && fits(p.v)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("LayerRebuilder: the model's K/V product of layer ", layer,
                                                 " has another shape than the bundle's: hidden ",
                                                 m.hidden_size, ", ", m.num_kv_heads, " heads of ",
                                                 m.head_dim));
}

}  // namespace

class LayerRebuilder::Impl {
 public:
  Impl(const LayerPlan& plan, absl::Span<const KvProjection> projections, const RopeTable& rope,
       Backend& backend)
      : plan_(plan), projections_(projections.begin(), projections.end()), rope_(rope), backend_(backend) {}

  absl::Status Pack(const Bundle& bundle) {
    const BundleManifest& m = bundle.manifest();
    widths_.d_kv = m.d_kv();
    widths_.codec = plan_.codec;
    decoders_.resize(plan_.layers.size());
    const auto num_layers = static_cast<std::int64_t>(plan_.layers.size());
    for (std::int64_t layer = 0; layer < num_layers; ++layer) {
      SCD_RETURN_IF_ERROR(CheckProjection(m, layer, projections_[static_cast<std::size_t>(layer)]));
      SCD_RETURN_IF_ERROR(MakeCoders(bundle, layer));
    }
    for (std::int64_t layer = 0; layer < num_layers; ++layer) {
      SCD_RETURN_IF_ERROR(PackLayer(bundle, layer, decoders_[static_cast<std::size_t>(layer)]));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Workspace>> CreateWorkspace(std::int64_t max_tokens) const {
    return RebuilderWorkspace::Create(this, backend_, widths_, max_tokens);
  }

  absl::Status Rebuild(Workspace& workspace, Stream& stream, const LayerCode& code, LayerPages pages) const {
    SCD_RETURN_IF_ERROR(CheckCode(code));
    if (code.first_token > rope_.cos.dim(0) - code.num_tokens) {
      return absl::OutOfRangeError(absl::StrCat("Rebuild: ", code.num_tokens, " tokens from position ",
                                                code.first_token, " go over the last position, ",
                                                rope_.cos.dim(0) - 1));
    }
    const LayerDecoders& decoders = decoders_[static_cast<std::size_t>(code.layer)];
    const bool in_one_pass = decoders.k != nullptr || decoders.group != nullptr;
    const LayerRange layers = plan_.CodeLayers(code.layer);
    const auto rebuild = [&](RebuilderWorkspace& own, std::int64_t, std::int64_t count) -> absl::Status {
      if (decoders.group != nullptr) return DecodeGroup(own, stream, *decoders.group, layers, pages);
      for (std::int64_t layer = layers.first; layer <= layers.last; ++layer) {
        SCD_RETURN_IF_ERROR(in_one_pass ? DecodeIntoPages(own, stream, code.kind, layer, pages(layer))
                                        : RebuildLayer(own, stream, code, layer, count, pages(layer)));
      }
      return absl::OkStatus();
    };
    return InSlices(workspace, stream, code, /*keep_bf16=*/in_one_pass, rebuild);
  }

  absl::Status RebuildOne(Workspace& workspace, Stream& stream, const LayerCode& code,
                          const PagedKv& pages) const {
    SCD_RETURN_IF_ERROR(CheckCode(code));
    SCD_RETURN_IF_ERROR(CheckOneLayer(code));
    return Rebuild(workspace, stream, code, [&pages](std::int64_t) { return pages; });
  }

  absl::Status Decode(Workspace& workspace, Stream& stream, const LayerCode& code, const TensorView& k,
                      const TensorView& v) const {
    SCD_RETURN_IF_ERROR(CheckCode(code));
    SCD_RETURN_IF_ERROR(CheckOneLayer(code));
    for (const auto& [view, needed] :
         {std::pair{k, code.kind != CodeKind::kV}, {v, code.kind != CodeKind::kK}}) {
      if (needed && !(view.shape() == Shape{code.num_tokens, widths_.d_kv})) {
        return absl::InvalidArgumentError(absl::StrCat("Decode: an output has shape ",
                                                       view.shape().ToString(), ", expected [",
                                                       code.num_tokens, ", ", widths_.d_kv, "]"));
      }
    }
    return InSlices(workspace, stream, code, /*keep_bf16=*/false,
                    [&](RebuilderWorkspace& own, std::int64_t begin, std::int64_t count) -> absl::Status {
                      return DecodeUploaded(own, stream, code, code.layer,
                                            code.kind == CodeKind::kV ? TensorView() : k.rows(begin, count),
                                            code.kind == CodeKind::kK ? TensorView() : v.rows(begin, count));
                    });
  }

 private:
  absl::Status CheckOneLayer(const LayerCode& code) const {
    const LayerRange layers = plan_.CodeLayers(code.layer);
    if (layers.size() == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("LayerRebuilder: the code of layer ", code.layer,
                                                   " holds layers ", layers.first, " to ", layers.last));
  }

  absl::Status CheckCode(const LayerCode& code) const {
    const auto bad = [&](const auto&... what) {
      return absl::InvalidArgumentError(absl::StrCat("LayerRebuilder: code of layer ", code.layer, " ",
                                                     std::string(CodeKindName(code.kind)), " ", what...));
    };
    if (code.layer < 0 || code.layer >= static_cast<std::int64_t>(plan_.layers.size())) {
      return bad("is for no layer of the plan");
    }
    if (code.kind == CodeKind::kResidual) return bad("is recomputed, not rebuilt");
    const std::vector<SentKind> sent = SentKinds(plan_.layers[static_cast<std::size_t>(code.layer)]);
    const auto found = std::find_if(sent.begin(), sent.end(),
                                    [&code](const SentKind& kind) { return kind.kind == code.kind; });
    if (found == sent.end()) return bad("is none that the plan sends");
    if (code.rank != found->rank || code.codec != plan_.codec)
      return bad("has another rank or codec than the plan");
    // A payload has at least half a byte for each of its tokens. What is entropy coded shows its size as it
    // is decoded.
    const bool countable =
        code.num_tokens >= 1 && static_cast<std::uint64_t>(code.num_tokens) <= 2 * code.payload.size();
    if (code.first_token < 0 || !countable ||
        (HasFixedSize(code.codec) &&
         code.payload.size() !=
             static_cast<std::uint64_t>(PayloadBytes(code.codec, code.kind, code.num_tokens, code.rank)))) {
      return bad("has ", code.payload.size(), " bytes for ", code.num_tokens, " tokens from ",
                 code.first_token);
    }
    return absl::OkStatus();
  }

  // Calls work(own workspace, begin, count) for slices of the checked code that fit the workspace, each
  // uploaded.
  template <typename Work>
  absl::Status InSlices(Workspace& workspace, Stream& stream, const LayerCode& code, bool keep_bf16,
                        const Work& work) const {
    auto* const own = dynamic_cast<RebuilderWorkspace*>(&workspace);
    if (own == nullptr || !own->BelongsTo(this)) {
      return absl::InvalidArgumentError("LayerRebuilder: the workspace is another rebuilder's");
    }
    SCD_RETURN_IF_ERROR(own->Begin(stream));
    absl::Status status;
    for (std::int64_t begin = 0; status.ok() && begin < code.num_tokens; begin += own->max_tokens()) {
      const std::int64_t count = std::min(own->max_tokens(), code.num_tokens - begin);
      status = own->Upload(stream, code, EntropyOf(code), begin, count, keep_bf16);
      if (status.ok()) status = work(*own, begin, count);
    }
    // Also after an error: what was queued before it still uses the workspace.
    const absl::Status ended = own->End(stream);
    return status.ok() ? ended : status;
  }

  // The uploaded codes -> K and V of one layer, by maps alone.
  absl::Status DecodeIntoPages(const RebuilderWorkspace& own, Stream& stream, CodeKind kind,
                               std::int64_t layer, const PagedKv& pages) const {
    const LayerDecoders& decoders = decoders_[static_cast<std::size_t>(layer)];
    if (kind != CodeKind::kV) {
      SCD_RETURN_IF_ERROR(backend_.DecodeIntoKv(stream, own.codes(), *decoders.k, KvPart::kK, own.positions(),
                                                &rope_, pages));
    }
    if (kind == CodeKind::kK) return absl::OkStatus();
    return backend_.DecodeIntoKv(stream, own.codes(), *decoders.v, KvPart::kV, own.positions(), nullptr,
                                 pages);
  }

  // The same for K and V of all layers of a group.
  absl::Status DecodeGroup(const RebuilderWorkspace& own, Stream& stream, const PackedWeight& group,
                           const LayerRange& layers, const LayerPages& pages) const {
    std::vector<KvTarget> targets;
    for (std::int64_t layer = layers.first; layer <= layers.last; ++layer) {
      targets.push_back({.part = KvPart::kK, .rope = &rope_, .kv = pages(layer)});
      targets.push_back({.part = KvPart::kV, .rope = nullptr, .kv = targets.back().kv});
    }
    return backend_.DecodeManyIntoKv(stream, own.codes(), group, own.positions(), targets);
  }

  // The same by way of K and V as rows.
  absl::Status RebuildLayer(const RebuilderWorkspace& own, Stream& stream, const LayerCode& code,
                            std::int64_t layer, std::int64_t count, const PagedKv& pages) const {
    const TensorView k = code.kind == CodeKind::kV ? TensorView() : own.k(count);
    const TensorView v = code.kind == CodeKind::kK ? TensorView() : own.v(count);
    SCD_RETURN_IF_ERROR(DecodeUploaded(own, stream, code, layer, k, v));
    if (!k.empty() && !ArrivesRoped(layer)) {
      SCD_RETURN_IF_ERROR(backend_.Rope(stream, Heads(k), own.positions(), rope_));
    }
    return backend_.WriteKv(stream, Heads(k), Heads(v), own.positions(), pages);
  }

  // The uploaded codes -> k (before RoPE) and v of one layer, [count, d_kv].
  absl::Status DecodeUploaded(const RebuilderWorkspace& own, Stream& stream, const LayerCode& code,
                              std::int64_t layer, const TensorView& k, const TensorView& v) const {
    const LayerDecoders& decoders = decoders_[static_cast<std::size_t>(layer)];
    const ConstTensorView codes = own.codes();
    if (IsRaw(layer)) return backend_.Copy(stream, code.kind == CodeKind::kK ? k : v, codes);
    if (decoders.k != nullptr) {
      if (code.kind != CodeKind::kV) SCD_RETURN_IF_ERROR(backend_.MatMul(stream, codes, *decoders.k, k));
      return code.kind == CodeKind::kK ? absl::OkStatus() : backend_.MatMul(stream, codes, *decoders.v, v);
    }
    if (decoders.group != nullptr) {
      const std::int64_t d_kv = widths_.d_kv;
      return MultiplyParts(backend_, stream, codes, {.weight = decoders.group.get(), .columns = {0, d_kv}}, k,
                           {.weight = decoders.group.get(), .columns = {d_kv, 2 * d_kv}}, v);
    }
    const TensorView work = own.inner(codes.dim(0), decoders.patch->work_width());
    return decoders.patch->Decode(stream, codes, work, k, v);
  }

  // Coders of what the layer sends, and the room that its codes take. Patch networks read whole codes.
  absl::Status MakeCoders(const Bundle& bundle, std::int64_t layer) {
    const bool whole = TreatmentOf(layer) == LayerTreatment::kPatch;
    for (const SentKind& sent : SentKinds(plan_.layers[static_cast<std::size_t>(layer)])) {
      if (sent.kind == CodeKind::kResidual) continue;
      std::unique_ptr<EntropyCoder>& coder =
          decoders_[static_cast<std::size_t>(layer)].entropy[static_cast<std::size_t>(sent.kind) - 1];
      SCD_ASSIGN_OR_RETURN(coder, EntropyCoderFor(bundle, plan_, layer, sent,
                                                  whole ? UnsentColumns::kKeep : UnsentColumns::kCutOff));
      widths_.most_columns = std::max(widths_.most_columns, coder == nullptr ? sent.rank : coder->rank());
    }
    return absl::OkStatus();
  }

  // Columns in which the code of `kind` that `layer` sends arrives.
  std::int64_t Columns(std::int64_t layer, CodeKind kind, std::int64_t rank) const {
    const EntropyCoder* const coder = decoders_[static_cast<std::size_t>(layer)].EntropyOf(kind);
    return coder == nullptr ? rank : coder->rank();
  }

  absl::Status PackLayer(const Bundle& bundle, std::int64_t layer, LayerDecoders& out) {
    const auto index = static_cast<std::size_t>(layer);
    const LayerRanks& ranks = plan_.layers[index];
    if (ranks.treatment == LayerTreatment::kReuse) {
      SCD_ASSIGN_OR_RETURN(const ReuseTranslator k,
                           bundle.Reuse(layer, CodeKind::kK, Columns(layer, CodeKind::kK, ranks.rank_k)));
      SCD_ASSIGN_OR_RETURN(const ReuseTranslator v,
                           bundle.Reuse(layer, CodeKind::kV, Columns(layer, CodeKind::kV, ranks.rank_v)));
      SCD_ASSIGN_OR_RETURN(out.k, backend_.PackWeight(k.decoder, k.decoder_bias));
      SCD_ASSIGN_OR_RETURN(out.v, backend_.PackWeight(v.decoder, v.decoder_bias));
    } else if (ranks.treatment == LayerTreatment::kPatch) {
      SCD_ASSIGN_OR_RETURN(const PatchTranslator patch, bundle.Patch(layer, ranks.rank_h));
      SCD_ASSIGN_OR_RETURN(out.patch, PatchDecoder::Create(patch, projections_[index], backend_));
      widths_.inner = std::max(widths_.inner, out.patch->work_width());
    } else if (ranks.treatment == LayerTreatment::kFused) {
      const std::int64_t sender = bundle.manifest().FusedGroup(layer).last;
      const std::int64_t columns = Columns(sender, CodeKind::kKV, bundle.manifest().fused.rank);
      if (backend_.device() != Device::kHost) {
        if (layer != sender) return absl::OkStatus();
        SCD_ASSIGN_OR_RETURN(out.group,
                             PackGroupDecoder(bundle, plan_.CodeLayers(sender), columns, backend_));
        return absl::OkStatus();
      }
      SCD_ASSIGN_OR_RETURN(const FusedTranslator fused, bundle.Fused(layer));
      return PackFused(fused, columns, out);
    }
    return absl::OkStatus();
  }

  // K and V are decoded as those of Reuse are, from the same codes.
  absl::Status PackFused(const FusedTranslator& fused, std::int64_t columns, LayerDecoders& out) {
    const std::int64_t d_kv = widths_.d_kv;
    const ConstTensorView decoder = fused.decoder.columns(0, columns);
    SCD_ASSIGN_OR_RETURN(out.k, backend_.PackWeight(decoder.rows(0, d_kv), fused.decoder_bias.rows(0, d_kv)));
    SCD_ASSIGN_OR_RETURN(out.v,
                         backend_.PackWeight(decoder.rows(d_kv, d_kv), fused.decoder_bias.rows(d_kv, d_kv)));
    return absl::OkStatus();
  }

  const EntropyCoder* EntropyOf(const LayerCode& code) const {
    return decoders_[static_cast<std::size_t>(code.layer)].EntropyOf(code.kind);
  }
  LayerTreatment TreatmentOf(std::int64_t layer) const {
    return plan_.layers[static_cast<std::size_t>(layer)].treatment;
  }
  bool ArrivesRoped(std::int64_t layer) const { return TreatmentOf(layer) == LayerTreatment::kRawRoped; }
  bool IsRaw(std::int64_t layer) const {
    return TreatmentOf(layer) == LayerTreatment::kRaw || ArrivesRoped(layer);
  }

  // [tokens, d_kv] -> [tokens, kv_heads, head_dim]; an empty view stays one.
  TensorView Heads(const TensorView& rows) const {
    if (rows.empty()) return rows;
    return rows.Reshaped(Shape{rows.dim(0), projections_[0].num_kv_heads, projections_[0].head_dim});
  }

  const LayerPlan plan_;
  const std::vector<KvProjection> projections_;
  const RopeTable rope_;
  Backend& backend_;
  RebuilderWidths widths_;
  std::vector<LayerDecoders> decoders_;
};

LayerRebuilder::LayerRebuilder(const LayerPlan& plan, std::unique_ptr<Impl> impl)
    : plan_(plan), impl_(std::move(impl)) {}

LayerRebuilder::~LayerRebuilder() = default;

absl::StatusOr<std::unique_ptr<LayerRebuilder>> LayerRebuilder::Create(
    const Bundle& bundle, const LayerPlan& plan, absl::Span<const KvProjection> projections,
    const RopeTable& rope, Backend& backend) {
  SCD_RETURN_IF_ERROR(bundle.CheckPlan(plan));
  if (projections.size() != plan.layers.size()) {
    return absl::InvalidArgumentError(absl::StrCat("LayerRebuilder: the model has ", projections.size(),
                                                   " layers, the plan ", plan.layers.size()));
  }
  if (rope.cos.rank() != 2 || rope.cos.dim(1) * 2 != bundle.manifest().head_dim) {
    return absl::InvalidArgumentError(absl::StrCat("LayerRebuilder: the RoPE table has shape ",
                                                   rope.cos.shape().ToString(), " for heads of ",
                                                   bundle.manifest().head_dim));
  }
  auto impl = std::make_unique<Impl>(plan, projections, rope, backend);
  SCD_RETURN_IF_ERROR(impl->Pack(bundle));
  return absl::WrapUnique(new LayerRebuilder(plan, std::move(impl)));
}

absl::StatusOr<std::unique_ptr<LayerRebuilder::Workspace>> LayerRebuilder::CreateWorkspace(
    std::int64_t max_tokens) const {
  return impl_->CreateWorkspace(max_tokens);
}

absl::Status LayerRebuilder::Rebuild(Workspace& workspace, Stream& stream, const LayerCode& code,
                                     LayerPages pages) const {
  return impl_->Rebuild(workspace, stream, code, pages);
}

absl::Status LayerRebuilder::Rebuild(Workspace& workspace, Stream& stream, const LayerCode& code,
                                     const PagedKv& pages) const {
  return impl_->RebuildOne(workspace, stream, code, pages);
}

absl::Status LayerRebuilder::Decode(Workspace& workspace, Stream& stream, const LayerCode& code,
                                    TensorView k_pre_rope, TensorView v) const {
  return impl_->Decode(workspace, stream, code, k_pre_rope, v);
}

}  // namespace scd
