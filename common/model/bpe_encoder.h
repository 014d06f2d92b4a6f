// TextEncoder of byte-pair vocabularies: normalise, cut into pieces, merge within each.
#ifndef SCD_COMMON_MODEL_BPE_ENCODER_H_
#define SCD_COMMON_MODEL_BPE_ENCODER_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/model/bpe_model.h"
#include "common/model/pre_tokenizer.h"
#include "common/model/text_encoder.h"
#include "kernels/status_macros.h"

namespace scd {

class BpeEncoder : public TextEncoder {
 public:
  BpeEncoder(Normalizer normalizer, PreTokenizer pre_tokenizer, std::unique_ptr<BpeModel> model)
      : normalizer_(std::move(normalizer)),
        pre_tokenizer_(std::move(pre_tokenizer)),
        model_(std::move(model)) {}

  absl::StatusOr<std::string> Normalize(std::string_view text) const override {
    return normalizer_.Apply(text);
  }

  absl::Status Encode(std::string_view text, TextPosition position,
                      std::vector<std::int32_t>* ids) const override {
    SCD_ASSIGN_OR_RETURN(const auto pieces, pre_tokenizer_.Apply(std::string(text), position.at_start));
    for (const std::string& piece : pieces) SCD_RETURN_IF_ERROR(model_->Encode(piece, ids));
    return absl::OkStatus();
  }

  void AddTo(DigestBuilder* digest) const override {
    normalizer_.AddTo(digest);
    pre_tokenizer_.AddTo(digest);
    model_->AddTo(digest);
  }

 private:
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<BpeModel> model_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_BPE_ENCODER_H_
