// What AddressSanitizer wants to be told of stacks that are switched, and of memory that only the device may
// touch. Without it these do nothing.
#ifndef SCD_TESTS_SUPPORT_CUDA_SHIM_ADDRESS_SANITIZER_H_
#define SCD_TESTS_SUPPORT_CUDA_SHIM_ADDRESS_SANITIZER_H_

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace scd::cuda_shim {

#ifdef __SANITIZE_ADDRESS__

inline void LeavingStack(void** left, const void* next, std::size_t next_bytes) {
  __sanitizer_start_switch_fiber(left, next, next_bytes);
}
inline void EnteredStack(void* left) {
  __sanitizer_finish_switch_fiber(left, nullptr, nullptr);
}
inline void ForgetStack(void* stack, std::size_t bytes) {
  __asan_unpoison_memory_region(stack, bytes);
}
inline void HideFromHost(void* memory, std::size_t bytes) {
  __asan_poison_memory_region(memory, bytes);
}
inline void ShowToDevice(void* memory, std::size_t bytes) {
  __asan_unpoison_memory_region(memory, bytes);
}

#else

inline void LeavingStack(void** /*left*/, const void* /*next*/, std::size_t /*next_bytes*/) {}
inline void EnteredStack(void* /*left*/) {}
inline void ForgetStack(void* /*stack*/, std::size_t /*bytes*/) {}
inline void HideFromHost(void* /*memory*/, std::size_t /*bytes*/) {}
inline void ShowToDevice(void* /*memory*/, std::size_t /*bytes*/) {}

#endif

}  // namespace scd::cuda_shim

#endif  // SCD_TESTS_SUPPORT_CUDA_SHIM_ADDRESS_SANITIZER_H_
