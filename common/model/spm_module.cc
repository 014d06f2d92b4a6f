#include "common/model/spm_module.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Processor = sentencepiece::SentencePieceProcessor;

void Tell(ScdSpmText error, void* target, std::string_view text) {
  error(target, text.data(), text.size());
}

void* Load(const char* serialized, std::size_t size, ScdSpmText error, void* error_target) {
  try {
    auto processor = std::make_unique<Processor>();
    const auto status = processor->LoadFromSerializedProto(std::string_view(serialized, size));
    if (status.ok()) return processor.release();
    Tell(error, error_target, status.ToString());
  } catch (const std::exception& exception) {
    Tell(error, error_target, exception.what());
  }
  return nullptr;
}

void Free(void* processor) {
  delete static_cast<Processor*>(processor);
}

int Encode(const void* processor, const char* text, std::size_t size, ScdSpmIds ids, void* ids_target,
           ScdSpmText error, void* error_target) {
  try {
    std::vector<int> pieces;
    const auto status =
        static_cast<const Processor*>(processor)->Encode(std::string_view(text, size), &pieces);
    if (status.ok()) {
      ids(ids_target, pieces.data(), pieces.size());
      return 0;
    }
    Tell(error, error_target, status.ToString());
  } catch (const std::exception& exception) {
    Tell(error, error_target, exception.what());
  }
  return 1;
}

std::int32_t NumPieces(const void* processor) {
  return static_cast<const Processor*>(processor)->GetPieceSize();
}
std::int32_t BosId(const void* processor) {
  return static_cast<const Processor*>(processor)->bos_id();
}
std::int32_t EosId(const void* processor) {
  return static_cast<const Processor*>(processor)->eos_id();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ScdSpmModule* scd_spm_module() {
  static constexpr ScdSpmModule kModule = {Load, Free, Encode, NumPieces, BosId, EosId};
  return &kModule;
}
