// Registers and stack of a function that stopped. On x86-64 a few instructions; elsewhere the system's
// contexts.
#ifndef SCD_TESTS_SUPPORT_CUDA_SHIM_MACHINE_CONTEXT_H_
#define SCD_TESTS_SUPPORT_CUDA_SHIM_MACHINE_CONTEXT_H_

#include <cstddef>
#include <memory>

namespace scd::cuda_shim {

class MachineContext {
 public:
  MachineContext();
  ~MachineContext();
  MachineContext(const MachineContext&) = delete;
  MachineContext& operator=(const MachineContext&) = delete;

  // entry() starts on this stack at the first switch; it never returns.
  void Prepare(void* stack, std::size_t bytes, void (*entry)());

  // Saves the calling function in *this and goes on with `next`.
  void SwitchTo(MachineContext& next);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace scd::cuda_shim

#endif  // SCD_TESTS_SUPPORT_CUDA_SHIM_MACHINE_CONTEXT_H_
