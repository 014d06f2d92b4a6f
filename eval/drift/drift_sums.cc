#include "eval/drift/drift_sums.h"

#include <cmath>

namespace scd {
namespace {

void AddAll(const std::vector<ErrorSum>& from, std::vector<ErrorSum>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

}  // namespace

void ErrorSum::Add(absl::Span<const float> actual, absl::Span<const float> native) {
  for (std::size_t i = 0; i < native.size(); ++i) {
    const double difference = static_cast<double>(actual[i]) - native[i];
    error += difference * difference;
    norm += static_cast<double>(native[i]) * native[i];
  }
}

ErrorSum& ErrorSum::operator+=(const ErrorSum& other) {
  error += other.error;
  norm += other.norm;
  return *this;
}

double ErrorSum::Relative() const {
  return norm > 0 ? std::sqrt(error / norm) : 0.0;
}

DriftSums::DriftSums(std::int64_t num_layers) {
  const auto layers = static_cast<std::size_t>(num_layers);
  for (auto* sums : {&k, &v, &from_input, &from_kv}) sums->resize(layers);
  hidden.resize(layers + 1);
}

DriftSums& DriftSums::operator+=(const DriftSums& other) {
  AddAll(other.k, k);
  AddAll(other.v, v);
  AddAll(other.hidden, hidden);
  AddAll(other.from_input, from_input);
  AddAll(other.from_kv, from_kv);
  return *this;
}

}  // namespace scd
