#include "common/translate/layer_encoder.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kKinds = 3;

std::size_t IndexOf(CodeKind kind) {
  return static_cast<std::size_t>(kind) - 1;
}

class EncoderWorkspace : public LayerEncoder::Workspace {
 public:
  EncoderWorkspace(const void* encoder, std::int64_t max_tokens, std::unique_ptr<Buffer> codes,
                   std::unique_ptr<Buffer> staging)
      : encoder_(encoder), max_tokens_(max_tokens), codes_(std::move(codes)), staging_(std::move(staging)) {}

  std::int64_t max_tokens() const override { return max_tokens_; }
  bool BelongsTo(const void* encoder) const { return encoder_ == encoder; }
  const Buffer& codes() const { return *codes_; }      // [max_tokens, largest rank] f32 on the device
  const Buffer& staging() const { return *staging_; }  // the same in the type of the codes, for the way back

 private:
  const void* const encoder_;
  const std::int64_t max_tokens_;
  const std::unique_ptr<Buffer> codes_;
  const std::unique_ptr<Buffer> staging_;
};

}  // namespace

class LayerEncoder::Impl {
 public:
  Impl(Backend& backend, DType dtype) : backend_(backend), dtype_(dtype) {}

  absl::Status Pack(const Bundle& bundle, const LayerPlan& plan) {
    encoders_.resize(plan.layers.size());
    for (std::size_t i = 0; i < plan.layers.size(); ++i) {
      const LayerRanks& ranks = plan.layers[i];
      const auto layer = static_cast<std::int64_t>(i);
      if (ranks.treatment == LayerTreatment::kPatch) {
        SCD_ASSIGN_OR_RETURN(const PatchTranslator patch, bundle.Patch(layer, ranks.rank_h));
        SCD_RETURN_IF_ERROR(Add(i, CodeKind::kH, patch.encoder, patch.encoder_bias));
        continue;
      }
      for (const auto& [kind, rank] : {std::pair{CodeKind::kK, ranks.rank_k}, {CodeKind::kV, ranks.rank_v}}) {
        SCD_ASSIGN_OR_RETURN(const ReuseTranslator reuse, bundle.Reuse(layer, kind, rank));
        SCD_RETURN_IF_ERROR(Add(i, kind, reuse.encoder, reuse.encoder_bias));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Workspace>> CreateWorkspace(std::int64_t max_tokens) const {
    if (max_tokens < 1) return absl::InvalidArgumentError("an encoder's workspace holds at least one token");
    const auto numbers = static_cast<std::size_t>(max_tokens * largest_rank_);
    SCD_ASSIGN_OR_RETURN(auto codes, backend_.Allocate(MemoryKind::kDevice, numbers * sizeof(float)));
    SCD_ASSIGN_OR_RETURN(auto staging, backend_.Allocate(MemoryKind::kStaging, numbers * DTypeBytes(dtype_)));
    return std::make_unique<EncoderWorkspace>(this, max_tokens, std::move(codes), std::move(staging));
  }

  absl::StatusOr<LayerCode> Encode(Workspace& workspace, Stream& stream, std::int64_t layer, CodeKind kind,
                                   const ConstTensorView& rows, std::int64_t first_token) const {
    auto* const own = dynamic_cast<EncoderWorkspace*>(&workspace);
    if (own == nullptr || !own->BelongsTo(this)) {
      return absl::InvalidArgumentError("Encode: the workspace is another encoder's");
    }
    SCD_ASSIGN_OR_RETURN(const PackedWeight* const encoder, Find(layer, kind));
    const std::int64_t num_tokens = rows.rank() == 2 ? rows.dim(0) : 0;
    if (num_tokens < 1 || num_tokens > own->max_tokens() || first_token < 0) {
      return absl::InvalidArgumentError(absl::StrCat("Encode: rows have shape ", rows.shape().ToString(),
                                                     " from position ", first_token, ", the workspace holds ",
                                                     own->max_tokens(), " tokens"));
    }
    const Shape shape{num_tokens, encoder->out_features()};
    const TensorView codes = own->codes().View(DType::kF32, shape);
    const TensorView staging = own->staging().View(dtype_, shape);
    SCD_RETURN_IF_ERROR(backend_.MatMul(stream, rows, *encoder, codes));
    SCD_RETURN_IF_ERROR(backend_.Copy(stream, staging, codes));
    SCD_RETURN_IF_ERROR(backend_.Synchronize(stream));
    LayerCode code{.layer = layer,
                   .kind = kind,
                   .first_token = first_token,
                   .num_tokens = num_tokens,
                   .rank = shape[1],
                   .dtype = dtype_,
                   .payload = {}};
    code.payload.assign(static_cast<const char*>(staging.data()),
                        static_cast<std::size_t>(shape.num_elements()) * DTypeBytes(dtype_));
    return code;
  }

 private:
  absl::Status Add(std::size_t layer, CodeKind kind, const ConstTensorView& weight,
                   const ConstTensorView& bias) {
    SCD_ASSIGN_OR_RETURN(encoders_[layer][IndexOf(kind)], backend_.PackWeight(weight, bias));
    largest_rank_ = std::max(largest_rank_, weight.dim(0));
    return absl::OkStatus();
  }

  absl::StatusOr<const PackedWeight*> Find(std::int64_t layer, CodeKind kind) const {
    const bool known =
        layer >= 0 && layer < static_cast<std::int64_t>(encoders_.size()) && IndexOf(kind) < kKinds;
    const PackedWeight* const encoder =
        known ? encoders_[static_cast<std::size_t>(layer)][IndexOf(kind)].get() : nullptr;
    if (encoder != nullptr) return encoder;
    return absl::InvalidArgumentError(absl::StrCat(
        "Encode: the plan sends no ", std::string(CodeKindName(kind)), " codes for layer ", layer));
  }

  Backend& backend_;
  const DType dtype_;
  std::vector<std::array<std::unique_ptr<PackedWeight>, kKinds>> encoders_;  // null: not sent
  std::int64_t largest_rank_ = 0;
};

LayerEncoder::LayerEncoder(const LayerPlan& plan, std::unique_ptr<Impl> impl)
    : plan_(plan), impl_(std::move(impl)) {}

LayerEncoder::~LayerEncoder() = default;

absl::StatusOr<std::unique_ptr<LayerEncoder>> LayerEncoder::Create(const Bundle& bundle,
                                                                   const LayerPlan& plan, Backend& backend) {
  SCD_RETURN_IF_ERROR(bundle.CheckPlan(plan));
  auto impl = std::make_unique<Impl>(backend, plan.code_dtype);
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
