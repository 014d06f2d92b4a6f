// What a pair of daemons says about itself.
#ifndef SCD_EVAL_PAIR_DESCRIPTION_H_
#define SCD_EVAL_PAIR_DESCRIPTION_H_

#include <cstdint>
#include <string>

namespace scd {

struct ModelDescription {
  std::string description;  // empty where it is not known here
  std::string digest;       // hexadecimal
};

struct PairDescription {
  ModelDescription producer;
  ModelDescription consumer;
  std::string bundle_path;
  std::string bundle_digest;  // hexadecimal
  std::string plan;           // the consumer's default, in words
  std::string backend;
  std::int64_t num_layers = 0;
  std::int64_t d_kv = 0;
  std::int64_t vocab_size = 0;

  std::int64_t raw_bytes_per_token() const { return num_layers * d_kv * 2 * 2; }  // K and V in bf16
};

}  // namespace scd

#endif  // SCD_EVAL_PAIR_DESCRIPTION_H_
