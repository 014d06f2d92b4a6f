#include "common/model/peft_adapter.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/model/hf_names.h"
#include "common/model/stored_weights.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// What PEFT puts before the base's own names.
constexpr char kPrefix[] = "base_model.model.";

// Weights of linear modules within a layer.
constexpr std::array<WeightKind, 7> kLinear = {WeightKind::kQ,   WeightKind::kK,    WeightKind::kV,
                                               WeightKind::kO,   WeightKind::kGate, WeightKind::kUp,
                                               WeightKind::kDown};

bool IsNorm(WeightKind kind) {
  switch (kind) {
    case WeightKind::kFinalNorm:
    case WeightKind::kAttentionNorm:
    case WeightKind::kMlpNorm:
    case WeightKind::kQNorm:
    case WeightKind::kKNorm:
      return true;
    default:
      return false;
  }
}

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

std::string Label(const PeftConfig& config, absl::string_view field) {
  return absl::StrCat(config.path, ": ", field);
}

// A tensor of the adapter that must be there, a float and of this shape.
absl::StatusOr<ConstTensorView> Require(const SafetensorsFile& file, const std::string& name,
                                        const Shape& shape) {
  SCD_ASSIGN_OR_RETURN(const ConstTensorView view, file.Get(name));
  if (!IsFloat(view.dtype()) || !(view.shape() == shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": ", name, ": expected f32, f16 or bf16 ", shape.ToString(), ", got ",
                     std::string(DTypeName(view.dtype())), " ", view.shape().ToString()));
  }
  SCD_RETURN_IF_ERROR(CheckFinite(view, file.path(), name));
  return view;
}

// row += scale * b A for one row of the weight, with b [rank] and A [rank, columns].
void AddProduct(const float* b, const float* a, std::int64_t rank, std::int64_t columns, float scale,
                float* delta, float* row) {
  std::fill(delta, delta + columns, 0.0F);
  std::int64_t k = 0;
  for (; k + 4 <= rank; k += 4) {  // four rows of A at a time, so that delta is read and written less
    const float* a0 = a + k * columns;
    const float* a1 = a0 + columns;
    const float* a2 = a1 + columns;
    const float* a3 = a2 + columns;
    const float b0 = b[k];
    const float b1 = b[k + 1];
    const float b2 = b[k + 2];
    const float b3 = b[k + 3];
    for (std::int64_t j = 0; j < columns; ++j) delta[j] += b0 * a0[j] + b1 * a1[j] + b2 * a2[j] + b3 * a3[j];
  }
  for (; k < rank; ++k) {
    const float* a0 = a + k * columns;
    for (std::int64_t j = 0; j < columns; ++j) delta[j] += b[k] * a0[j];
  }
  for (std::int64_t j = 0; j < columns; ++j) row[j] += scale * delta[j];
}

class MergedWeightStore final : public WeightStore {
 public:
  MergedWeightStore(std::unique_ptr<WeightStore> base, std::unique_ptr<PeftAdapter> adapter)
      : base_(std::move(base)), adapter_(std::move(adapter)) {}

  absl::StatusOr<HostTensor> Load(WeightKind kind, std::int64_t layer) const override {
    return adapter_->Merge(*base_, kind, layer);
  }

  absl::StatusOr<HostTensor> LoadBase(WeightKind kind, std::int64_t layer) const override {
    return adapter_->Replaces(kind, layer) ? Load(kind, layer) : base_->Load(kind, layer);
  }

  absl::StatusOr<std::optional<StoredBlocks>> LoadBlocks(WeightKind kind, std::int64_t layer) const override {
    if (adapter_->Replaces(kind, layer)) return std::nullopt;
    return base_->LoadBlocks(kind, layer);
  }

  absl::StatusOr<std::optional<LowRankMatrices>> LoadLowRank(WeightKind kind,
                                                             std::int64_t layer) const override {
    return adapter_->LowRank(kind, layer);
  }

 private:
  std::unique_ptr<WeightStore> base_;
  std::unique_ptr<PeftAdapter> adapter_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PeftAdapter>> PeftAdapter::Open(const std::string& folder,
                                                               const ModelConfig& base) {
  const std::filesystem::path path(folder);
  SCD_ASSIGN_OR_RETURN(PeftConfig config, LoadPeftConfig((path / "adapter_config.json").string()));
  SCD_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open((path / "adapter_model.safetensors").string()));
  std::unique_ptr<PeftAdapter> adapter(new PeftAdapter(std::move(config), std::move(file)));
  SCD_RETURN_IF_ERROR(adapter->BindTargets(base));
  SCD_RETURN_IF_ERROR(adapter->BindSaved(base));
  SCD_RETURN_IF_ERROR(adapter->CheckAllUsed());
  return adapter;
}

absl::Status PeftAdapter::BindTargets(const ModelConfig& base) {
  std::vector<Key> modules;
  for (std::int64_t layer = 0; layer < base.num_layers; ++layer) {
    for (const WeightKind kind : kLinear) modules.emplace_back(kind, layer);
  }
  modules.emplace_back(WeightKind::kLmHead, -1);
  modules.emplace_back(WeightKind::kEmbedding, -1);

  // PEFT never adapts a module that is saved whole.
  std::vector<NamePattern> saved;
  for (const std::string& name : config_.modules_to_save) {
    auto pattern = NamePattern::Create(absl::StrCat("(^|.*\\.)", name, "($|\\..*)"));
    if (!pattern.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Label(config_, "modules_to_save"), ": ", pattern.status().message()));
    }
    saved.push_back(*std::move(pattern));
  }

  std::set<std::string> names_found;
  for (const Key& key : modules) {
    const auto [kind, layer] = key;
    const std::string module = HfModuleName(kind, layer);
    bool chosen = config_.targets.all_linear && layer >= 0;
    if (!config_.targets.all_linear) {
      SCD_ASSIGN_OR_RETURN(chosen, config_.targets.Matches(module));
    }
    for (const std::string& name : config_.targets.names) {
      if (module == name || absl::EndsWith(module, absl::StrCat(".", name))) names_found.insert(name);
    }
    SCD_ASSIGN_OR_RETURN(bool left_out, config_.excluded.Matches(module));
    for (const NamePattern& pattern : saved) {
      SCD_ASSIGN_OR_RETURN(const bool whole, pattern.Matches(module));
      left_out = left_out || whole;
    }
    if (config_.layers && !config_.layers->contains(layer)) left_out = true;
    if (!chosen || left_out) continue;
    if (kind == WeightKind::kEmbedding || (kind == WeightKind::kLmHead && base.tie_word_embeddings)) {
      return absl::InvalidArgumentError(absl::StrCat(Label(config_, "target_modules"), ": ", module,
                                                     ": an adapter on the embeddings is not supported"));
    }
    Target target{module, {}, {}, {}};
    SCD_ASSIGN_OR_RETURN(target.lora, config_.LoraOf(module));
    const Shape shape = WeightShape(base, kind);
    const std::string prefix = absl::StrCat(kPrefix, module);
    SCD_ASSIGN_OR_RETURN(target.a, Require(*file_, prefix + ".lora_A.weight", {target.lora.rank, shape[1]}));
    SCD_ASSIGN_OR_RETURN(target.b, Require(*file_, prefix + ".lora_B.weight", {shape[0], target.lora.rank}));
    targets_.emplace(key, std::move(target));
  }
  for (const std::string& name : config_.targets.names) {
    if (!names_found.contains(name)) {
      return absl::InvalidArgumentError(absl::StrCat(Label(config_, "target_modules"), ": \"",
                                                     absl::CHexEscape(name),
                                                     "\" is no module of the base model"));
    }
  }
  if (targets_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Label(config_, "target_modules"), ": no module of the base model matches"));
  }
  if (config_.layers && !config_.layers->empty() && *config_.layers->rbegin() >= base.num_layers) {
    return absl::InvalidArgumentError(absl::StrCat(
        Label(config_, "layers_to_transform"), ": the base model has no layer ", *config_.layers->rbegin()));
  }
  return absl::OkStatus();
}

absl::Status PeftAdapter::BindSaved(const ModelConfig& base) {
  std::vector<Key> weights = {
      {WeightKind::kEmbedding, -1}, {WeightKind::kFinalNorm, -1}, {WeightKind::kLmHead, -1}};
  for (std::int64_t layer = 0; layer < base.num_layers; ++layer) {
    for (const WeightKind kind : LayerWeightKinds(base)) {
      if (IsNorm(kind)) weights.emplace_back(kind, layer);
    }
  }
  for (const std::string& name : config_.modules_to_save) {
    bool found = false;
    for (const Key& key : weights) {
      const std::string module = HfModuleName(key.first, key.second);
      if (module != name && !absl::EndsWith(module, absl::StrCat(".", name))) continue;
      found = true;
      SCD_ASSIGN_OR_RETURN(saved_[key],
                           Require(*file_, absl::StrCat(kPrefix, HfWeightName(key.first, key.second)),
                                   WeightShape(base, key.first)));
    }
    if (!found) {
      return absl::InvalidArgumentError(
          absl::StrCat(Label(config_, "modules_to_save"), ": \"", absl::CHexEscape(name),
                       "\" is not supported (the embeddings, lm_head and the norms of the base model are)"));
    }
  }
  const bool embedding = saved_.contains({WeightKind::kEmbedding, -1});
  const bool lm_head = saved_.contains({WeightKind::kLmHead, -1});
  if (base.tie_word_embeddings && embedding != lm_head) {
    return absl::InvalidArgumentError(
        absl::StrCat(Label(config_, "modules_to_save"),
                     ": the base has one matrix for embed_tokens and lm_head; an adapter "
                     "that brings only one of them is not supported"));
  }
  unties_embeddings_ = base.tie_word_embeddings && embedding;
  return absl::OkStatus();
}

absl::Status PeftAdapter::CheckAllUsed() const {
  std::set<std::string> used;
  for (const auto& [key, target] : targets_) {
    used.insert(absl::StrCat(kPrefix, target.module, ".lora_A.weight"));
    used.insert(absl::StrCat(kPrefix, target.module, ".lora_B.weight"));
  }
  for (const auto& [key, view] : saved_)
    used.insert(absl::StrCat(kPrefix, HfWeightName(key.first, key.second)));
  for (const auto& [name, view] : file_->tensors()) {
    if (!used.contains(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_->path(), ": ", absl::CHexEscape(name),
                       ": is not a tensor that adapter_config.json accounts for"));
    }
  }
  return absl::OkStatus();
}

void PeftAdapter::AddTo(DigestBuilder& digest) const {
  digest.AddInt(static_cast<std::int64_t>(file_->tensors().size()));
  for (const auto& [name, view] : file_->tensors()) {
    const std::string dtype(DTypeName(view.dtype()));
    digest.AddString(name).AddString(dtype).AddInt(view.rank());
    for (int i = 0; i < view.rank(); ++i) digest.AddInt(view.dim(i));
    digest.AddBytes({static_cast<const std::byte*>(view.data()),
                     static_cast<std::size_t>(view.num_elements()) * DTypeBytes(view.dtype())});
  }
  std::map<std::string, PeftConfig::Lora> by_name;
  for (const auto& [key, target] : targets_) by_name.emplace(target.module, target.lora);
  digest.AddInt(static_cast<std::int64_t>(by_name.size()));
  for (const auto& [module, lora] : by_name) digest.AddString(module).AddInt(lora.rank).AddDouble(lora.alpha);
  digest.AddInt(config_.rank_stabilised ? 1 : 0);
}

absl::StatusOr<HostTensor> PeftAdapter::Merge(const WeightStore& base, WeightKind kind,
                                              std::int64_t layer) const {
  if (const auto it = saved_.find({kind, layer}); it != saved_.end()) return HostTensor(it->second);
  SCD_ASSIGN_OR_RETURN(HostTensor weight, base.Load(kind, layer));
  const auto it = targets_.find({kind, layer});
  if (it == targets_.end()) return weight;
  const Target& target = it->second;
  const Shape shape = weight.view().shape();
  std::vector<float> values = std::move(weight).TakeFloats();
  const std::vector<float> a = HostTensor(target.a).TakeFloats();
  const std::vector<float> b = HostTensor(target.b).TakeFloats();
  std::vector<float> delta(static_cast<std::size_t>(shape[1]));
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    AddProduct(b.data() + row * target.lora.rank, a.data(), target.lora.rank, shape[1],
               static_cast<float>(target.lora.scale), delta.data(), values.data() + row * shape[1]);
  }
  return HostTensor(std::move(values), shape);
}

std::optional<LowRankMatrices> PeftAdapter::LowRank(WeightKind kind, std::int64_t layer) const {
  const auto it = targets_.find({kind, layer});
  if (it == targets_.end()) return std::nullopt;
  const Target& target = it->second;
  LowRankMatrices out{target.lora.rank, HostTensor(target.a).TakeFloats(), HostTensor(target.b).TakeFloats()};
  for (float& value : out.b) value *= static_cast<float>(target.lora.scale);
  return out;
}

std::unique_ptr<WeightStore> MergedWeights(std::unique_ptr<WeightStore> base,
                                           std::unique_ptr<PeftAdapter> adapter) {
  return std::make_unique<MergedWeightStore>(std::move(base), std::move(adapter));
}

}  // namespace scd
