#include "common/translate/layer_encoder.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
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
  std::int64_t rank = 0;                            // columns that are sent
  std::unique_ptr<PackedWeight> encoder = nullptr;  // null: the rows themselves are sent
  bool roped = false;                               // after RoPE
  std::unique_ptr<EntropyCoder> entropy = nullptr;  // null where the codec is of fixed size
};

class EncoderWorkspace : public LayerEncoder::Workspace {
 public:
  struct Memory {
    std::unique_ptr<Buffer> codes;             // [max_tokens, largest rank] f32 on the device
    std::unique_ptr<Buffer> staging;           // the same in the staging type of the codec, for the way back
    std::unique_ptr<Buffer> positions;         // [max_tokens] i32 on the device; null where nothing is roped
    std::unique_ptr<Buffer> staged_positions;  // the same on the host
  };

  EncoderWorkspace(const void* encoder, std::int64_t max_tokens, Memory memory)
      : encoder_(encoder), max_tokens_(max_tokens), memory_(std::move(memory)) {}

  std::int64_t max_tokens() const override { return max_tokens_; }
  bool BelongsTo(const void* encoder) const { return encoder_ == encoder; }
  const Memory& memory() const { return memory_; }

 private:
  const void* const encoder_;
  const std::int64_t max_tokens_;
  const Memory memory_;
};

}  // namespace

class LayerEncoder::Impl {
 public:
  Impl(const RopeTable& rope, Backend& backend, Codec codec)
      : rope_(rope), backend_(backend), codec_(codec) {}

  absl::Status Pack(const Bundle& bundle, const LayerPlan& plan) {
    const BundleManifest& m = bundle.manifest();
    heads_ = {m.num_kv_heads, m.head_dim};
    senders_.resize(plan.layers.size());
    for (std::size_t i = 0; i < plan.layers.size(); ++i) {
      const LayerRanks& ranks = plan.layers[i];
      for (const SentKind& sent : SentKinds(ranks)) {
        Sender& sender = senders_[i][IndexOf(sent.kind)];
        const auto layer = static_cast<std::int64_t>(i);
        SCD_ASSIGN_OR_RETURN(sender, MakeSender(bundle, layer, ranks.treatment, sent));
        SCD_ASSIGN_OR_RETURN(sender.entropy, EntropyCoderFor(bundle, plan, layer, sent));
        largest_rank_ = std::max(largest_rank_, sender.rank);
        any_roped_ = any_roped_ || sender.roped;
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Workspace>> CreateWorkspace(std::int64_t max_tokens) const {
    if (max_tokens < 1) return absl::InvalidArgumentError("an encoder's workspace holds at least one token");
    const auto numbers = static_cast<std::size_t>(max_tokens * largest_rank_);
    EncoderWorkspace::Memory memory;
    SCD_ASSIGN_OR_RETURN(memory.codes, backend_.Allocate(MemoryKind::kDevice, numbers * sizeof(float)));
    SCD_ASSIGN_OR_RETURN(memory.staging,
                         backend_.Allocate(MemoryKind::kStaging, numbers * DTypeBytes(StagingDType(codec_))));
    if (any_roped_) {
      const auto bytes = static_cast<std::size_t>(max_tokens) * sizeof(std::int32_t);
      SCD_ASSIGN_OR_RETURN(memory.positions, backend_.Allocate(MemoryKind::kDevice, bytes));
      SCD_ASSIGN_OR_RETURN(memory.staged_positions, backend_.Allocate(MemoryKind::kStaging, bytes));
    }
    return std::make_unique<EncoderWorkspace>(this, max_tokens, std::move(memory));
  }

  absl::StatusOr<LayerCode> Encode(Workspace& workspace, Stream& stream, std::int64_t layer, CodeKind kind,
                                   const ConstTensorView& rows, std::int64_t first_token) const {
    auto* const own = dynamic_cast<EncoderWorkspace*>(&workspace);
    if (own == nullptr || !own->BelongsTo(this)) {
      return absl::InvalidArgumentError("Encode: the workspace is another encoder's");
    }
    SCD_ASSIGN_OR_RETURN(const Sender* const sender, Find(layer, kind));
    const std::int64_t num_tokens = rows.rank() == 2 ? rows.dim(0) : 0;
    if (num_tokens < 1 || num_tokens > own->max_tokens() || first_token < 0 ||
        rows.dim(1) != sender->in_features) {
      return absl::InvalidArgumentError(absl::StrCat("Encode: rows have shape ", rows.shape().ToString(),
                                                     " from position ", first_token, ", expected [1 to ",
                                                     own->max_tokens(), ", ", sender->in_features, "]"));
    }
    const Shape shape{num_tokens, sender->rank};
    const TensorView staging = own->memory().staging->View(StagingDType(codec_), shape);
    SCD_ASSIGN_OR_RETURN(const ConstTensorView numbers, Send(*own, stream, *sender, rows, first_token));
    SCD_RETURN_IF_ERROR(backend_.Copy(stream, staging, numbers));
    SCD_RETURN_IF_ERROR(backend_.Synchronize(stream));
    LayerCode code{.layer = layer,
                   .kind = kind,
                   .first_token = first_token,
                   .num_tokens = num_tokens,
                   .rank = sender->rank,
                   .codec = codec_,
                   .payload = {}};
    if (sender->entropy != nullptr) {
      auto payload = sender->entropy->Encode(staging.as<float>(), num_tokens);
      if (!payload.ok()) return payload.status();
      code.payload = *std::move(payload);
    } else if (IsQuantized(codec_)) {
      code.payload = EncodeNumbers(codec_, kind, staging.as<float>(), num_tokens, sender->rank);
    } else {
      code.payload.assign(static_cast<const char*>(staging.data()),
                          static_cast<std::size_t>(shape.num_elements()) * DTypeBytes(staging.dtype()));
    }
    return code;
  }

 private:
  absl::StatusOr<Sender> MakeSender(const Bundle& bundle, std::int64_t layer, LayerTreatment treatment,
                                    const SentKind& sent) const {
    const BundleManifest& m = bundle.manifest();
    switch (treatment) {
      case LayerTreatment::kReuse: {
        SCD_ASSIGN_OR_RETURN(const ReuseTranslator reuse, bundle.Reuse(layer, sent.kind, sent.rank));
        return Translating(reuse.encoder, reuse.encoder_bias);
      }
      case LayerTreatment::kPatch: {
        SCD_ASSIGN_OR_RETURN(const PatchTranslator patch, bundle.Patch(layer, sent.rank));
        return Translating(patch.encoder, patch.encoder_bias);
      }
      case LayerTreatment::kFused: {
        SCD_ASSIGN_OR_RETURN(const FusedTranslator fused, bundle.Fused(layer));
        return Translating(fused.encoder, fused.encoder_bias);
      }
      case LayerTreatment::kRaw:
      case LayerTreatment::kRawRoped:
        return Sender{.in_features = m.d_kv(),
                      .rank = sent.rank,
                      .encoder = nullptr,
                      .roped = treatment == LayerTreatment::kRawRoped && sent.kind == CodeKind::kK,
                      .entropy = nullptr};
      case LayerTreatment::kRecompute:
        return Sender{.in_features = m.hidden_size, .rank = sent.rank};
    }
    return absl::InvalidArgumentError("Encode: the plan has a treatment that is none");
  }

  absl::StatusOr<Sender> Translating(const ConstTensorView& weight, const ConstTensorView& bias) const {
    Sender sender{.in_features = weight.dim(1), .rank = weight.dim(0)};
    SCD_ASSIGN_OR_RETURN(sender.encoder, backend_.PackWeight(weight, bias));
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

  // rows -> what is sent of them, [tokens, rank] f32 on the device.
  absl::StatusOr<ConstTensorView> Send(const EncoderWorkspace& own, Stream& stream, const Sender& sender,
                                       const ConstTensorView& rows, std::int64_t first_token) const {
    const TensorView codes = own.memory().codes->View(DType::kF32, Shape{rows.dim(0), sender.rank});
    if (sender.encoder != nullptr) {
      SCD_RETURN_IF_ERROR(backend_.MatMul(stream, rows, *sender.encoder, codes));
      return ConstTensorView(codes);
    }
    if (!sender.roped) return rows;
    if (first_token > rope_.cos.dim(0) - rows.dim(0)) {
      return absl::OutOfRangeError(absl::StrCat("Encode: ", rows.dim(0), " tokens from position ",
                                                first_token, " go over the last position, ",
                                                rope_.cos.dim(0) - 1));
    }
    const Shape positions_shape{rows.dim(0)};
    const TensorView staged = own.memory().staged_positions->View(DType::kI32, positions_shape);
    std::iota(staged.as<std::int32_t>(), staged.as<std::int32_t>() + rows.dim(0),
              static_cast<std::int32_t>(first_token));
    const TensorView positions = own.memory().positions->View(DType::kI32, positions_shape);
    SCD_RETURN_IF_ERROR(backend_.Copy(stream, positions, staged));
    SCD_RETURN_IF_ERROR(backend_.Copy(stream, codes, rows));
    SCD_RETURN_IF_ERROR(backend_.Rope(stream, codes.Reshaped(Shape{rows.dim(0), heads_.first, heads_.second}),
                                      positions, rope_));
    return ConstTensorView(codes);
  }

  const RopeTable rope_;
  Backend& backend_;
  const Codec codec_;
  std::pair<std::int64_t, std::int64_t> heads_;  // K/V heads, head_dim
  std::vector<std::array<Sender, kKinds>> senders_;
  std::int64_t largest_rank_ = 0;
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

absl::StatusOr<LayerCode> LayerEncoder::Encode(Workspace& workspace, Stream& stream, std::int64_t layer,
                                               CodeKind kind, ConstTensorView rows,
                                               std::int64_t first_token) const {
  return impl_->Encode(workspace, stream, layer, kind, rows, first_token);
}

}  // namespace scd
