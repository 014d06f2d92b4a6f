#include "common/model/spm_processor.h"

#include <dlfcn.h>

#include <utility>

#include "common/model/spm_module.h"

namespace scd {
namespace {

constexpr char kModuleFile[] = "libscd_sentencepiece.so";

// Address sanitizer refuses modules that are bound deeply; a program built with it must not link Protocol
// Buffers and load a tokenizer.model at once.
#ifdef __SANITIZE_ADDRESS__
constexpr int kOpenFlags = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kOpenFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

struct Module {
  const ScdSpmModule* functions = nullptr;
  std::string error;
};

Module OpenModule() {
  // Looked for where the program lies (its RUNPATH is $ORIGIN), then where the system keeps libraries. Never
  // closed: processors may live as long as the process.
  void* const handle = dlopen(kModuleFile, kOpenFlags);
  if (handle == nullptr) return {nullptr, dlerror()};
  const auto function = reinterpret_cast<ScdSpmModuleFunction>(dlsym(handle, "scd_spm_module"));
  if (function == nullptr) return {nullptr, std::string(kModuleFile) + " is another library"};
  return {function(), ""};
}

const Module& TheModule() {
  static const Module module = OpenModule();
  return module;
}

void TakeText(void* target, const char* text, std::size_t size) {
  static_cast<std::string*>(target)->assign(text, size);
}

void TakeIds(void* target, const std::int32_t* ids, std::size_t count) {
  auto* out = static_cast<std::vector<std::int32_t>*>(target);
  out->insert(out->end(), ids, ids + count);
}

}  // namespace

struct SpmProcessor::Impl {
  explicit Impl(void* loaded) : processor(loaded) {}
  ~Impl() { TheModule().functions->free(processor); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void* const processor;
};

SpmProcessor::SpmProcessor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SpmProcessor::~SpmProcessor() = default;

std::unique_ptr<SpmProcessor> SpmProcessor::Load(std::string_view serialized, std::string* error) {
  const Module& module = TheModule();
  if (module.functions == nullptr) {
    *error = module.error;
    return nullptr;
  }
  void* const processor = module.functions->load(serialized.data(), serialized.size(), TakeText, error);
  if (processor == nullptr) return nullptr;
  return std::unique_ptr<SpmProcessor>(new SpmProcessor(std::make_unique<Impl>(processor)));
}

bool SpmProcessor::Encode(std::string_view text, std::vector<std::int32_t>* ids, std::string* error) const {
  return TheModule().functions->encode(impl_->processor, text.data(), text.size(), TakeIds, ids, TakeText,
                                       error) == 0;
}

std::int32_t SpmProcessor::num_pieces() const {
  return TheModule().functions->num_pieces(impl_->processor);
}
std::int32_t SpmProcessor::bos_id() const {
  return TheModule().functions->bos_id(impl_->processor);
}
std::int32_t SpmProcessor::eos_id() const {
  return TheModule().functions->eos_id(impl_->processor);
}

}  // namespace scd
