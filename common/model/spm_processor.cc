#include "common/model/spm_processor.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <utility>

namespace scd {

struct SpmProcessor::Impl {
  sentencepiece::SentencePieceProcessor processor;
};

SpmProcessor::SpmProcessor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SpmProcessor::~SpmProcessor() = default;

std::unique_ptr<SpmProcessor> SpmProcessor::Load(std::string_view serialized, std::string* error) {
  auto impl = std::make_unique<Impl>();
  try {
    const auto status = impl->processor.LoadFromSerializedProto(serialized);
    if (status.ok()) return std::unique_ptr<SpmProcessor>(new SpmProcessor(std::move(impl)));
    *error = status.ToString();
  } catch (const std::exception& exception) {
    *error = exception.what();
  }
  return nullptr;
}

bool SpmProcessor::Encode(std::string_view text, std::vector<std::int32_t>* ids, std::string* error) const {
  try {
    std::vector<int> pieces;
    const auto status = impl_->processor.Encode(text, &pieces);
    if (status.ok()) {
      ids->insert(ids->end(), pieces.begin(), pieces.end());
      return true;
    }
    *error = status.ToString();
  } catch (const std::exception& exception) {
    *error = exception.what();
  }
  return false;
}

std::int32_t SpmProcessor::num_pieces() const {
  return impl_->processor.GetPieceSize();
}
std::int32_t SpmProcessor::bos_id() const {
  return impl_->processor.bos_id();
}
std::int32_t SpmProcessor::eos_id() const {
  return impl_->processor.eos_id();
}

}  // namespace scd
