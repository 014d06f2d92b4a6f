// Stacks of their own for functions that give way to each other: what the threads of a block are here.
#ifndef SCD_TESTS_SUPPORT_CUDA_SHIM_FIBER_H_
#define SCD_TESTS_SUPPORT_CUDA_SHIM_FIBER_H_

#include <cstddef>
#include <memory>

#include "tests/support/cuda_shim/machine_context.h"

namespace scd::cuda_shim {

// A stack and where its function stopped. The stack of whoever switches first is a Fiber too, made by
// Fiber().
class Fiber {
 public:
  // That of the calling thread.
  Fiber();
  // Begins with entry() when it is switched to for the first time; entry never returns.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Stops the function that runs on *this, which is the calling one, and goes on with that of `next`. Returns
  // when somebody switches to *this.
  void SwitchTo(Fiber& next);

 private:
  static void Begin();

  MachineContext context_;
  void (*entry_)() = nullptr;
  std::byte* mapping_ = nullptr;  // nullptr: the calling thread's own
  void* stack_ = nullptr;         // lowest address
  std::size_t stack_bytes_ = 0;
};

}  // namespace scd::cuda_shim

#endif  // SCD_TESTS_SUPPORT_CUDA_SHIM_FIBER_H_
