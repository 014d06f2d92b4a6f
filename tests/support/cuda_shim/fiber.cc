#include "tests/support/cuda_shim/fiber.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/cuda_shim/address_sanitizer.h"

namespace scd::cuda_shim {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;

// Whom Begin belongs to: set by the switch that starts it.
thread_local void (*starting_entry)() = nullptr;

struct Stack {
  void* lowest = nullptr;
  std::size_t bytes = 0;
};

Stack OwnStack() {
  Stack stack;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &stack.lowest, &stack.bytes);
    pthread_attr_destroy(&attributes);
  }
  return stack;
}

std::size_t PageBytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Fiber::Fiber() {
  thread_local const Stack own = OwnStack();
  stack_ = own.lowest;
  stack_bytes_ = own.bytes;
}

Fiber::Fiber(void (*entry)()) : entry_(entry) {
  // A stack that grows too far meets a page that cannot be touched.
  const std::size_t guard = PageBytes();
  void* mapping = mmap(nullptr, kStackBytes + guard, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED || mprotect(mapping, guard, PROT_NONE) != 0) {
    std::fputs("cuda shim: no memory for the stack of a thread\n", stderr);
    std::abort();
  }
  mapping_ = static_cast<std::byte*>(mapping);
  stack_ = mapping_ + guard;
  stack_bytes_ = kStackBytes;
  context_.Prepare(stack_, stack_bytes_, &Fiber::Begin);
}

Fiber::~Fiber() {
  if (mapping_ == nullptr) return;
  ForgetStack(stack_, stack_bytes_);
  munmap(mapping_, kStackBytes + PageBytes());
}

void Fiber::Begin() {
  EnteredStack(nullptr);
  starting_entry();
}

void Fiber::SwitchTo(Fiber& next) {
  starting_entry = next.entry_;
  void* left = nullptr;
  LeavingStack(&left, next.stack_, next.stack_bytes_);
  context_.SwitchTo(next.context_);
  EnteredStack(left);
}

}  // namespace scd::cuda_shim
