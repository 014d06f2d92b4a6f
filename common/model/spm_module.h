// The C interface of libscd_sentencepiece.so, which is all that this project uses of the sentencepiece
// library.
//
// That library carries a Protocol Buffers runtime of its own version and exports its symbols, so a process
// that also links Protocol Buffers (every daemon) gets a mixture of the two and crashes. The module is
// therefore opened at run time, with its symbols kept from the rest of the process and the rest's kept from
// it.
#ifndef SCD_COMMON_MODEL_SPM_MODULE_H_
#define SCD_COMMON_MODEL_SPM_MODULE_H_

#include <cstddef>
#include <cstdint>

extern "C" {

// Takes the words of an error.
using ScdSpmText = void (*)(void* target, const char* text, std::size_t size);
// Takes the ids of an encoded text.
using ScdSpmIds = void (*)(void* target, const std::int32_t* ids, std::size_t count);

struct ScdSpmModule {
  // A processor for ScdSpmModule::free, or null after `error` was called.
  void* (*load)(const char* serialized, std::size_t size, ScdSpmText error, void* error_target);
  void (*free)(void* processor);
  // Returns 0 after `ids` was called, 1 after `error` was.
  int (*encode)(const void* processor, const char* text, std::size_t size, ScdSpmIds ids, void* ids_target,
                ScdSpmText error, void* error_target);
  std::int32_t (*num_pieces)(const void* processor);
  std::int32_t (*bos_id)(const void* processor);
  std::int32_t (*eos_id)(const void* processor);
};

// The module's one symbol, "scd_spm_module".
using ScdSpmModuleFunction = const ScdSpmModule* (*)();
}

#endif  // SCD_COMMON_MODEL_SPM_MODULE_H_
