#include "common/model/hf_weights.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/io/json.h"
#include "common/io/safetensors.h"
#include "common/model/hf_names.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr char kLmHeadName[] = "lm_head.weight";

struct Located {
  const SafetensorsFile* file;
  ConstTensorView view;
};

// Every tensor of a folder, whatever files it is spread over.
struct TensorFiles {
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, Located> tensors;
  std::string path;  // of the single file or the index, for messages
};

bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

absl::StatusOr<TensorFiles> OpenShards(const std::filesystem::path& folder, const std::string& index_path) {
  SCD_ASSIGN_OR_RETURN(const nlohmann::json document, ParseJsonFile(index_path));
  SCD_ASSIGN_OR_RETURN(const JsonObject index, JsonObject::Create(document, index_path));
  SCD_ASSIGN_OR_RETURN(const JsonObject map, index.Object("weight_map"));
  TensorFiles out;
  out.path = index_path;
  std::map<std::string, const SafetensorsFile*> by_name;
  for (const auto& [tensor, shard] : map.value().items()) {
    if (!shard.is_string() || !IsPlainFileName(shard.get<std::string>())) {
      return map.Error(absl::CHexEscape(tensor), "expected the name of a file in the same folder");
    }
    const auto shard_name = shard.get<std::string>();
    const SafetensorsFile*& file = by_name[shard_name];
    if (file == nullptr) {
      SCD_ASSIGN_OR_RETURN(auto opened, SafetensorsFile::Open((folder / shard_name).string()));
      file = opened.get();
      out.files.push_back(std::move(opened));
    }
    SCD_ASSIGN_OR_RETURN(const ConstTensorView view, file->Get(tensor));
    out.tensors.emplace(tensor, Located{file, view});
  }
  return out;
}

absl::StatusOr<TensorFiles> OpenFolder(const std::filesystem::path& folder) {
  const std::string single = (folder / kSingleFile).string();
  auto opened = SafetensorsFile::Open(single);
  if (absl::IsNotFound(opened.status())) {
    const std::string index = (folder / kIndexFile).string();
    auto shards = OpenShards(folder, index);
    std::error_code ignored;
    if (absl::IsNotFound(shards.status()) && !std::filesystem::exists(index, ignored)) {
      return absl::NotFoundError(absl::StrCat(folder.string(), ": holds neither ", kSingleFile, " nor ",
                                              kIndexFile, " (weights in other formats are not read)"));
    }
    return shards;
  }
  if (!opened.ok()) return opened.status();
  TensorFiles out;
  out.path = single;
  for (const auto& [name, view] : (*opened)->tensors())
    out.tensors.emplace(name, Located{opened->get(), view});
  out.files.push_back(*std::move(opened));
  return out;
}

class HfWeightStore final : public StoredWeights {
 public:
  explicit HfWeightStore(TensorFiles files) : files_(std::move(files)) {}

  const TensorFiles& files() const { return files_; }
  void Bind(WeightKind kind, std::int64_t layer, ConstTensorView view) { weights_[{kind, layer}] = view; }

  absl::StatusOr<HostTensor> Load(WeightKind kind, std::int64_t layer) const override {
    SCD_ASSIGN_OR_RETURN(const ConstTensorView view, Find(kind, layer));
    SCD_RETURN_IF_ERROR(CheckFinite(view, files_.path, HfWeightName(kind, layer)));
    return HostTensor(view);
  }

  absl::StatusOr<StoredTensor> Stored(WeightKind kind, std::int64_t layer) const override {
    SCD_ASSIGN_OR_RETURN(const ConstTensorView view, Find(kind, layer));
    const std::size_t bytes = static_cast<std::size_t>(view.num_elements()) * DTypeBytes(view.dtype());
    return StoredTensor{std::string(DTypeName(view.dtype())),
                        view.shape(),
                        {static_cast<const std::byte*>(view.data()), bytes}};
  }

 private:
  absl::StatusOr<ConstTensorView> Find(WeightKind kind, std::int64_t layer) const {
    const auto it = weights_.find({kind, layer});
    if (it == weights_.end()) {
      return absl::NotFoundError(
          absl::StrCat(files_.path, ": ", HfWeightName(kind, layer), ": not a weight of this model"));
    }
    return it->second;
  }

  TensorFiles files_;
  std::map<std::pair<WeightKind, std::int64_t>, ConstTensorView> weights_;
};

absl::StatusOr<ConstTensorView> Checked(const TensorFiles& files, const ModelConfig& config, WeightKind kind,
                                        const std::string& name) {
  const auto it = files.tensors.find(name);
  if (it == files.tensors.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.path, ": ", name, ": missing, although the config asks for it"));
  }
  const auto& [file, view] = it->second;
  const Shape expected = WeightShape(config, kind);
  const bool is_float =
      view.dtype() == DType::kF32 || view.dtype() == DType::kF16 || view.dtype() == DType::kBF16;
  if (!is_float || !(view.shape() == expected)) {
    return absl::InvalidArgumentError(absl::StrCat(
        file->path(), ": ", name, ": expected f32, f16 or bf16 ", expected.ToString(), " by the config, got ",
        std::string(DTypeName(view.dtype())), " ", view.shape().ToString()));
  }
  return view;
}

// Whether a tensor that was not asked for may be left out without changing what the model computes.
bool MayBeLeftOut(const std::string& name, bool tied) {
  return absl::EndsWith(name, "rotary_emb.inv_freq") || (tied && name == kLmHeadName);
}

}  // namespace

absl::StatusOr<HfWeights> OpenHfWeights(const std::string& folder, const HfConfig& config) {
  SCD_ASSIGN_OR_RETURN(TensorFiles files, OpenFolder(folder));
  ModelConfig model = config.model;
  if (!config.states_tied && !files.tensors.contains(kLmHeadName)) model.tie_word_embeddings = true;

  HfWeights out;
  out.tied = model.tie_word_embeddings;
  std::set<std::string> used;
  auto store = std::make_unique<HfWeightStore>(std::move(files));
  const auto bind = [&](WeightKind kind, std::int64_t layer) -> absl::Status {
    const std::string name = HfWeightName(kind, layer);
    SCD_ASSIGN_OR_RETURN(const ConstTensorView view, Checked(store->files(), model, kind, name));
    used.insert(name);
    store->Bind(kind, layer, view);
    return absl::OkStatus();
  };
  for (const WeightKind kind : ModelWeightKinds(model)) SCD_RETURN_IF_ERROR(bind(kind, -1));
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
    for (const WeightKind kind : LayerWeightKinds(model)) SCD_RETURN_IF_ERROR(bind(kind, layer));
  }

  std::set<std::int64_t> unused_layers;
  for (const auto& [name, located] : store->files().tensors) {
    if (used.contains(name) || MayBeLeftOut(name, out.tied)) continue;
    const std::int64_t layer = HfLayerOf(name);
    if (layer < model.num_layers) {
      return absl::InvalidArgumentError(absl::StrCat(located.file->path(), ": ", absl::CHexEscape(name),
                                                     ": the config asks for no such tensor"));
    }
    unused_layers.insert(layer);
  }
  out.num_unused_layers = static_cast<std::int64_t>(unused_layers.size());

  if (out.tied) {
    SCD_ASSIGN_OR_RETURN(const HostTensor embedding, store->Load(WeightKind::kEmbedding, -1));
    store->Bind(WeightKind::kLmHead, -1, embedding.view());
  }
  out.weights = std::move(store);
  return out;
}

}  // namespace scd
