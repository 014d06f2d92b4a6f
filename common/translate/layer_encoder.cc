#include "common/translate/layer_encoder.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/translate/encoder_workspace.h"
#include "common/translate/plan_entropy.h"
#include "common/wire/entropy_coder.h"
#include "common/wire/payload_format.h"
#include "common/wire/payload_numbers.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr auto kKinds = static_cast<std::size_t>(kNumCodeKinds);

std::size_t IndexOf(CodeKind kind) {
  return static_cast<std::size_t>(kind) - 1;
}

// What becomes of the rows of one kind of one layer.
struct Sender {
  std::int64_t in_features = 0;                     // 0: not sent
  std::int64_t rank = 0;                            // of the code
  std::int64_t columns = 0;                         // that are computed; the code's others are not sent
  std::unique_ptr<PackedWeight> encoder = nullptr;  // null: the rows themselves are sent
  // Of a group of Fused layers: the shares of the layers before this one, in order.
  std::vector<std::unique_ptr<PackedWeight>> earlier = {};
  bool roped = false;                               // after RoPE
  std::unique_ptr<EntropyCoder> entropy = nullptr;  // null where the codec is of fixed size
};

// Reads the numbers of a code once they have arrived in its slot.
class CodeInSlot final : public PendingCode {
 public:
  CodeInSlot(EncoderWorkspace& workspace, EncoderWorkspace::Slot& slot, const Sender& sender, LayerCode code)
      : workspace_(workspace), slot_(slot), sender_(sender), code_(std::move(code)) {}
  ~CodeInSlot() override { EncoderWorkspace::GiveBack(slot_); }

  absl::StatusOr<bool> Ready() const override { return workspace_.HasArrived(slot_); }

  absl::StatusOr<LayerCode> Finish() override {
    SCD_ASSIGN_OR_RETURN(const ConstTensorView numbers, workspace_.Arrived(slot_));
    if (sender_.entropy != nullptr) {
      auto payload = sender_.entropy->Encode(numbers.as<float>(), code_.num_tokens);
      if (!payload.ok()) return payload.status();
      code_.payload = *std::move(payload);
    } else if (IsQuantized(code_.codec) && numbers.dtype() == DType::kF32) {
      code_.payload =
          EncodeNumbers(code_.codec, code_.kind, numbers.as<float>(), code_.num_tokens, code_.rank);
    } else {
      code_.payload.assign(static_cast<const char*>(numbers.data()),
                           static_cast<std::size_t>(numbers.num_elements()) * DTypeBytes(numbers.dtype()));
    }
    return std::move(code_);
  }

 private:
  EncoderWorkspace& workspace_;
  EncoderWorkspace::Slot& slot_;
  const Sender& sender_;
  LayerCode code_;
};

}  // namespace

class LayerEncoder::Impl {
 public:
  Impl(const RopeTable& rope, Backend& backend, Codec codec)
      : rope_(rope), backend_(backend), codec_(codec) {}

  absl::Status Pack(const Bundle& bundle, const LayerPlan& plan) {
    const BundleManifest& m = bundle.manifest();
    heads_ = {m.num_kv_heads, m.head_dim};
    hidden_ = m.hidden_size;
    for (std::int64_t layer = 0; layer < static_cast<std::int64_t>(plan.layers.size()); ++layer) {
      kept_places_.push_back(plan.CodeComesLater(layer) ? layer - plan.CodeLayers(layer).first : kNotKept);
    }
    senders_.resize(plan.layers.size());
    for (std::size_t i = 0; i < plan.layers.size(); ++i) {
      const LayerRanks& ranks = plan.layers[i];
      for (const SentKind& sent : SentKinds(ranks)) {
        Sender& sender = senders_[i][IndexOf(sent.kind)];
        const auto layer = static_cast<std::int64_t>(i);
        SCD_ASSIGN_OR_RETURN(std::unique_ptr<EntropyCoder> entropy,
                             EntropyCoderFor(bundle, plan, layer, sent, UnsentColumns::kCutOff));
        const std::int64_t columns = entropy == nullptr ? sent.rank : entropy->rank();
        SCD_ASSIGN_OR_RETURN(sender, MakeSender(bundle, plan, layer, sent, columns));
        sender.rank = sent.rank;
        sender.columns = columns;
        sender.entropy = std::move(entropy);
        most_columns_ = std::max(most_columns_, columns);
        most_kept_ = std::max(most_kept_, sender.earlier.size());
        any_roped_ = any_roped_ || sender.roped;
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Workspace>> CreateWorkspace(std::int64_t max_tokens) const {
    return EncoderWorkspace::Create(this, backend_,
                                    {.most_columns = most_columns_,
                                     .staging_dtype = StagingDType(codec_),
                                     .integers = IsQuantized(codec_),
                                     .positions = any_roped_,
                                     .num_kept = most_kept_,
                                     .hidden = hidden_},
                                    max_tokens);
  }

  absl::Status Keep(Workspace& workspace, Stream& stream, std::int64_t layer, const ConstTensorView& rows,
                    std::int64_t first_token) const {
    SCD_ASSIGN_OR_RETURN(EncoderWorkspace* const own, Own(workspace));
    const bool known = layer >= 0 && layer < static_cast<std::int64_t>(kept_places_.size());
    const std::int64_t place = known ? kept_places_[static_cast<std::size_t>(layer)] : kNotKept;
    if (place == kNotKept) {
      return absl::InvalidArgumentError(absl::StrCat("Keep: the plan sends no later code for layer ", layer));
    }
    SCD_RETURN_IF_ERROR(CheckRows(*own, rows, hidden_, first_token));
    const auto index = static_cast<std::size_t>(place);
    own->kept()[index] = {.layer = layer, .first_token = first_token, .num_tokens = rows.dim(0)};
    return backend_.Copy(stream, own->KeptRows(index, rows.dim(0)), rows);
  }

  absl::StatusOr<std::unique_ptr<PendingCode>> Begin(Workspace& workspace, Stream& stream, std::int64_t layer,
                                                     CodeKind kind, const ConstTensorView& rows,
                                                     std::int64_t first_token) const {
    SCD_ASSIGN_OR_RETURN(EncoderWorkspace* const own, Own(workspace));
    SCD_ASSIGN_OR_RETURN(const Sender* const sender, Find(layer, kind));
    SCD_RETURN_IF_ERROR(CheckRows(*own, rows, sender->in_features, first_token));
    SCD_ASSIGN_OR_RETURN(EncoderWorkspace::Slot* const slot, own->Take());
    auto pending = std::make_unique<CodeInSlot>(*own, *slot, *sender,
                                                LayerCode{.layer = layer,
                                                          .kind = kind,
                                                          .first_token = first_token,
                                                          .num_tokens = rows.dim(0),
                                                          .rank = sender->rank,
                                                          .codec = codec_,
                                                          .payload = {}});
    auto numbers = Send(*own, *slot, stream, *sender, layer, rows, first_token);
    absl::Status status = numbers.status();
    const auto integers = IsQuantized(codec_) ? std::optional(IntegersOf(codec_, kind, sender->columns))
                                              : std::optional<GroupedIntegers>();
    if (status.ok()) status = own->Leave(stream, *slot, *numbers, integers);
    if (status.ok()) return pending;
    // What was queued before the error uses the slot.
    status.Update(backend_.Synchronize(stream));
    return status;
  }

 private:
  absl::StatusOr<EncoderWorkspace*> Own(Workspace& workspace) const {
    auto* const own = dynamic_cast<EncoderWorkspace*>(&workspace);
    if (own != nullptr && own->BelongsTo(this)) return own;
    return absl::InvalidArgumentError("LayerEncoder: the workspace is another encoder's");
  }

  static absl::Status CheckRows(const EncoderWorkspace& own, const ConstTensorView& rows,
                                std::int64_t in_features, std::int64_t first_token) {
    const std::int64_t num_tokens = rows.rank() == 2 ? rows.dim(0) : 0;
    if (num_tokens >= 1 && num_tokens <= own.max_tokens() && first_token >= 0 && rows.dim(1) == in_features) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("LayerEncoder: rows have shape ", rows.shape().ToString(),
                                                   " from position ", first_token, ", expected [1 to ",
                                                   own.max_tokens(), ", ", in_features, "]"));
  }

  absl::StatusOr<Sender> MakeSender(const Bundle& bundle, const LayerPlan& plan, std::int64_t layer,
                                    const SentKind& sent, std::int64_t columns) const {
    const BundleManifest& m = bundle.manifest();
    const LayerTreatment treatment = plan.layers[static_cast<std::size_t>(layer)].treatment;
    switch (treatment) {
      case LayerTreatment::kReuse: {
        SCD_ASSIGN_OR_RETURN(const ReuseTranslator reuse, bundle.Reuse(layer, sent.kind, sent.rank));
        return Translating(reuse.encoder, reuse.encoder_bias, columns);
      }
      case LayerTreatment::kPatch: {
        SCD_ASSIGN_OR_RETURN(const PatchTranslator patch, bundle.Patch(layer, sent.rank));
        return Translating(patch.encoder, patch.encoder_bias, columns);
      }
      case LayerTreatment::kFused: {
        SCD_ASSIGN_OR_RETURN(const FusedTranslator fused, bundle.Fused(layer));
        SCD_ASSIGN_OR_RETURN(Sender sender, Translating(fused.encoder, fused.encoder_bias, columns));
        for (std::int64_t l = plan.CodeLayers(layer).first; l < layer; ++l) {
          SCD_ASSIGN_OR_RETURN(const FusedTranslator share, bundle.Fused(l));
          SCD_ASSIGN_OR_RETURN(sender.earlier.emplace_back(),
                               backend_.PackWeight(share.encoder.rows(0, columns), ConstTensorView()));
        }
        return sender;
      }
      case LayerTreatment::kRaw:
      case LayerTreatment::kRawRoped:
        return Sender{.in_features = m.d_kv(),
                      .roped = treatment == LayerTreatment::kRawRoped && sent.kind == CodeKind::kK};
      case LayerTreatment::kRecompute:
        return Sender{.in_features = m.hidden_size};
    }
    return absl::InvalidArgumentError("Encode: the plan has a treatment that is none");
  }

  // By the first `columns` rows of the map.
  absl::StatusOr<Sender> Translating(const ConstTensorView& weight, const ConstTensorView& bias,
                                     std::int64_t columns) const {
    Sender sender{.in_features = weight.dim(1)};
    SCD_ASSIGN_OR_RETURN(sender.encoder, backend_.PackWeight(weight.rows(0, columns), bias.rows(0, columns)));
    return sender;
  }

  absl::StatusOr<const Sender*> Find(std::int64_t layer, CodeKind kind) const {
    if (layer >= 0 && layer < static_cast<std::int64_t>(senders_.size()) && IndexOf(kind) < kKinds) {
      const Sender& sender = senders_[static_cast<std::size_t>(layer)][IndexOf(kind)];
      if (sender.in_features > 0) return &sender;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "Encode: the plan sends no ", std::string(CodeKindName(kind)), " codes for layer ", layer));
  }

  // rows -> what is sent of them, [tokens, columns] f32 on the device.
  absl::StatusOr<ConstTensorView> Send(const EncoderWorkspace& own, const EncoderWorkspace::Slot& slot,
                                       Stream& stream, const Sender& sender, std::int64_t layer,
                                       const ConstTensorView& rows, std::int64_t first_token) const {
    const TensorView codes = own.Codes(slot, rows.dim(0), sender.columns);
    if (sender.encoder != nullptr) {
      SCD_RETURN_IF_ERROR(backend_.MatMul(stream, rows, *sender.encoder, codes));
      for (std::size_t i = 0; i < sender.earlier.size(); ++i) {
        const std::int64_t before = layer - static_cast<std::int64_t>(sender.earlier.size() - i);
        SCD_ASSIGN_OR_RETURN(const ConstTensorView kept, KeptRows(own, i, before, first_token, rows.dim(0)));
        SCD_RETURN_IF_ERROR(
            backend_.MatMul(stream, kept, *sender.earlier[i], codes, {.accumulate = true, .columns = {}}));
      }
      return ConstTensorView(codes);
    }
    if (!sender.roped) return rows;
    if (first_token > rope_.cos.dim(0) - rows.dim(0)) {
      return absl::OutOfRangeError(absl::StrCat("Encode: ", rows.dim(0), " tokens from position ",
                                                first_token, " go over the last position, ",
                                                rope_.cos.dim(0) - 1));
    }
    const Shape positions_shape{rows.dim(0)};
    const TensorView staged = slot.staged_positions->View(DType::kI32, positions_shape);
    std::iota(staged.as<std::int32_t>(), staged.as<std::int32_t>() + rows.dim(0),
              static_cast<std::int32_t>(first_token));
    const TensorView positions = own.positions().View(DType::kI32, positions_shape);
    SCD_RETURN_IF_ERROR(backend_.Copy(stream, positions, staged));
    SCD_RETURN_IF_ERROR(backend_.Copy(stream, codes, rows));
    SCD_RETURN_IF_ERROR(backend_.Rope(stream, codes.Reshaped(Shape{rows.dim(0), heads_.first, heads_.second}),
                                      positions, rope_));
    return ConstTensorView(codes);
  }

  absl::StatusOr<ConstTensorView> KeptRows(const EncoderWorkspace& own, std::size_t place, std::int64_t layer,
                                           std::int64_t first_token, std::int64_t num_tokens) const {
    const EncoderWorkspace::Kept& kept = own.kept()[place];
    const std::int64_t begin = first_token - kept.first_token;
    if (kept.layer != layer || begin < 0 || begin > kept.num_tokens - num_tokens) {
      return absl::InvalidArgumentError(absl::StrCat("Encode: the rows of layer ", layer, ", positions ",
                                                     first_token, " to ", first_token + num_tokens - 1,
                                                     ", were not kept"));
    }
    return ConstTensorView(own.KeptRows(place, kept.num_tokens).rows(begin, num_tokens));
  }

  static constexpr std::int64_t kNotKept = -1;

  const RopeTable rope_;
  Backend& backend_;
  const Codec codec_;
  std::pair<std::int64_t, std::int64_t> heads_;  // K/V heads, head_dim
  std::vector<std::array<Sender, kKinds>> senders_;
  std::int64_t hidden_ = 0;
  std::vector<std::int64_t> kept_places_;  // by layer: which of the workspace's `kept`, or kNotKept
  std::size_t most_kept_ = 0;
  std::int64_t most_columns_ = 0;
  bool any_roped_ = false;
};

LayerEncoder::LayerEncoder(const LayerPlan& plan, std::unique_ptr<Impl> impl)
    : plan_(plan), impl_(std::move(impl)) {}

LayerEncoder::~LayerEncoder() = default;

absl::StatusOr<std::unique_ptr<LayerEncoder>> LayerEncoder::Create(const Bundle& bundle,
                                                                   const LayerPlan& plan,
                                                                   const RopeTable& rope, Backend& backend) {
  SCD_RETURN_IF_ERROR(bundle.CheckPlan(plan));
  auto impl = std::make_unique<Impl>(rope, backend, plan.codec);
  SCD_RETURN_IF_ERROR(impl->Pack(bundle, plan));
  return absl::WrapUnique(new LayerEncoder(plan, std::move(impl)));
}

absl::StatusOr<std::unique_ptr<LayerEncoder::Workspace>> LayerEncoder::CreateWorkspace(
    std::int64_t max_tokens) const {
  return impl_->CreateWorkspace(max_tokens);
}

absl::Status LayerEncoder::Keep(Workspace& workspace, Stream& stream, std::int64_t layer,
                                ConstTensorView rows, std::int64_t first_token) const {
  return impl_->Keep(workspace, stream, layer, rows, first_token);
}

absl::StatusOr<std::unique_ptr<PendingCode>> LayerEncoder::Begin(Workspace& workspace, Stream& stream,
                                                                 std::int64_t layer, CodeKind kind,
                                                                 ConstTensorView rows,
                                                                 std::int64_t first_token) const {
  return impl_->Begin(workspace, stream, layer, kind, rows, first_token);
}

absl::StatusOr<LayerCode> LayerEncoder::Encode(Workspace& workspace, Stream& stream, std::int64_t layer,
                                               CodeKind kind, ConstTensorView rows,
                                               std::int64_t first_token) const {
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<PendingCode> pending,
                       Begin(workspace, stream, layer, kind, rows, first_token));
  return pending->Finish();
}

}  // namespace scd
