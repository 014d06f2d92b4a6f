#include <ucontext.h>

#include "tests/support/cuda_shim/machine_context.h"

namespace scd::cuda_shim {

struct MachineContext::State {
  ucontext_t context = {};
};

MachineContext::MachineContext() : state_(std::make_unique<State>()) {}
MachineContext::~MachineContext() = default;

void MachineContext::Prepare(void* stack, std::size_t bytes, void (*entry)()) {
  getcontext(&state_->context);
  state_->context.uc_stack.ss_sp = stack;
  state_->context.uc_stack.ss_size = bytes;
  state_->context.uc_link = nullptr;
  makecontext(&state_->context, entry, 0);
}

void MachineContext::SwitchTo(MachineContext& next) {
  swapcontext(&state_->context, &next.state_->context);
}

}  // namespace scd::cuda_shim
