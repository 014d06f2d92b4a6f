#include "tests/common/model/plain_transformer.h"

#include <algorithm>
#include <cmath>

namespace scd::testing {
namespace {

std::vector<double> Values(const WeightStore& weights, WeightKind kind, std::int64_t layer) {
  const HostTensor tensor = *weights.Load(kind, layer);
  const float* begin = tensor.view().as<float>();
  return std::vector<double>(begin, begin + tensor.view().num_elements());
}

// x W^T + b; an empty b is none.
Rows Product(const Rows& x, const std::vector<double>& w, const std::vector<double>& b) {
  Rows out;
  for (const auto& row : x) {
    std::vector<double> y(w.size() / row.size());
    for (std::size_t o = 0; o < y.size(); ++o) {
      y[o] = b.empty() ? 0.0 : b[o];
      for (std::size_t i = 0; i < row.size(); ++i) y[o] += row[i] * w[o * row.size() + i];
    }
    out.push_back(y);
  }
  return out;
}

// RMSNorm of every group of weight.size() values.
Rows Norm(Rows x, const std::vector<double>& weight, double epsilon) {
  const std::size_t width = weight.size();
  for (auto& row : x) {
    for (std::size_t g = 0; g < row.size(); g += width) {
      double squares = 0.0;
      for (std::size_t i = 0; i < width; ++i) squares += row[g + i] * row[g + i];
      const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + epsilon);
      for (std::size_t i = 0; i < width; ++i) row[g + i] *= scale * weight[i];
    }
  }
  return x;
}

Rows Turn(Rows x, const ModelConfig& config) {
  const auto head_dim = static_cast<std::size_t>(config.head_dim);
  for (std::size_t p = 0; p < x.size(); ++p) {
    for (std::size_t h = 0; h < x[p].size(); h += head_dim) {
      for (std::size_t i = 0; i < head_dim / 2; ++i) {
        const double angle =
            static_cast<double>(p) *
            std::pow(config.rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
        const double a = x[p][h + i];
        const double b = x[p][h + i + head_dim / 2];
        x[p][h + i] = a * std::cos(angle) - b * std::sin(angle);
        x[p][h + i + head_dim / 2] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }
  return x;
}

Rows Attend(const Rows& q, const Rows& k, const Rows& v, const ModelConfig& config, std::int64_t window) {
  const auto head_dim = static_cast<std::size_t>(config.head_dim);
  const auto heads = static_cast<std::size_t>(config.num_heads);
  const std::size_t group = heads / static_cast<std::size_t>(config.num_kv_heads);
  Rows out(q.size(), std::vector<double>(q[0].size(), 0.0));
  for (std::size_t p = 0; p < q.size(); ++p) {
    const std::size_t first =
        window == 0 || static_cast<std::int64_t>(p) < window ? 0 : p + 1 - static_cast<std::size_t>(window);
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t at = h * head_dim;
      const std::size_t kv_at = h / group * head_dim;
      std::vector<double> weights;
      for (std::size_t t = first; t <= p; ++t) {
        double dot = 0.0;
        for (std::size_t i = 0; i < head_dim; ++i) dot += q[p][at + i] * k[t][kv_at + i];
        weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(head_dim))));
      }
      double total = 0.0;
      for (const double w : weights) total += w;
      for (std::size_t t = first; t <= p; ++t) {
        for (std::size_t i = 0; i < head_dim; ++i)
          out[p][at + i] += weights[t - first] / total * v[t][kv_at + i];
      }
    }
  }
  return out;
}

void Add(Rows& x, const Rows& y) {
  for (std::size_t p = 0; p < x.size(); ++p) {
    for (std::size_t i = 0; i < x[p].size(); ++i) x[p][i] += y[p][i];
  }
}

}  // namespace

PlainResult RunPlainTransformer(const ModelConfig& config, const WeightStore& weights,
                                absl::Span<const std::int32_t> tokens) {
  const auto optional = [&](bool present, WeightKind kind, std::int64_t layer) {
    return present ? Values(weights, kind, layer) : std::vector<double>();
  };
  const double epsilon = config.rms_norm_eps;
  const auto hidden = static_cast<std::size_t>(config.hidden_size);
  const std::vector<double> table = Values(weights, WeightKind::kEmbedding, -1);
  Rows x;
  for (const std::int32_t id : tokens) {
    const auto begin = table.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(id) * hidden);
    x.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(hidden));
  }

  PlainResult result;
  for (std::int64_t l = 0; l < config.num_layers; ++l) {
    PlainLayer layer;
    layer.residual = x;
    layer.attention_input = Norm(x, Values(weights, WeightKind::kAttentionNorm, l), epsilon);
    const auto project = [&](WeightKind kind, WeightKind bias) {
      return Product(layer.attention_input, Values(weights, kind, l), optional(config.qkv_bias, bias, l));
    };
    Rows q = project(WeightKind::kQ, WeightKind::kQBias);
    layer.k = project(WeightKind::kK, WeightKind::kKBias);
    layer.v = project(WeightKind::kV, WeightKind::kVBias);
    if (config.qk_norm) {
      q = Norm(q, Values(weights, WeightKind::kQNorm, l), epsilon);
      layer.k = Norm(layer.k, Values(weights, WeightKind::kKNorm, l), epsilon);
    }
    const std::int64_t window =
        config.sliding_window.empty() ? 0 : config.sliding_window[static_cast<std::size_t>(l)];
    const Rows attended = Attend(Turn(q, config), Turn(layer.k, config), layer.v, config, window);
    Add(x, Product(attended, Values(weights, WeightKind::kO, l),
                   optional(config.o_bias, WeightKind::kOBias, l)));

    const Rows input = Norm(x, Values(weights, WeightKind::kMlpNorm, l), epsilon);
    Rows gate = Product(input, Values(weights, WeightKind::kGate, l),
                        optional(config.mlp_bias, WeightKind::kGateBias, l));
    const Rows up = Product(input, Values(weights, WeightKind::kUp, l),
                            optional(config.mlp_bias, WeightKind::kUpBias, l));
    for (std::size_t p = 0; p < gate.size(); ++p) {
      for (std::size_t i = 0; i < gate[p].size(); ++i) gate[p][i] *= up[p][i] / (1.0 + std::exp(-gate[p][i]));
    }
    Add(x, Product(gate, Values(weights, WeightKind::kDown, l),
                   optional(config.mlp_bias, WeightKind::kDownBias, l)));
    result.layers.push_back(std::move(layer));
  }
  result.logits = Product(Norm(x, Values(weights, WeightKind::kFinalNorm, -1), epsilon),
                          config.tie_word_embeddings ? table : Values(weights, WeightKind::kLmHead, -1), {});
  return result;
}

}  // namespace scd::testing
