#include <cstdint>

#include "tests/support/cuda_shim/machine_context.h"

// Registers that a callee keeps are on the stack of whoever stopped; the stack pointer is all that is left.
extern "C" void scd_cuda_shim_switch(void** save, void* load);
asm(R"(
.text
.type scd_cuda_shim_switch, @function
.hidden scd_cuda_shim_switch
.globl scd_cuda_shim_switch
scd_cuda_shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size scd_cuda_shim_switch, .-scd_cuda_shim_switch
)");

namespace scd::cuda_shim {

struct MachineContext::State {
  void* stack_pointer = nullptr;
};

MachineContext::MachineContext() : state_(std::make_unique<State>()) {}
MachineContext::~MachineContext() = default;

void MachineContext::Prepare(void* stack, std::size_t bytes, void (*entry)()) {
  constexpr int kSavedRegisters = 6;
  auto top = reinterpret_cast<std::uintptr_t>(stack) + bytes;
  top &= ~std::uintptr_t{15};
  auto* words = reinterpret_cast<void**>(top);
  // As after a call: the address to return to (nobody's) makes the stack one word off 16 bytes.
  *--words = nullptr;
  *--words = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--words = nullptr;
  state_->stack_pointer = words;
}

void MachineContext::SwitchTo(MachineContext& next) {
  scd_cuda_shim_switch(&state_->stack_pointer, next.state_->stack_pointer);
}

}  // namespace scd::cuda_shim
