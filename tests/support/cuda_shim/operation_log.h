// What was queued on streams, and what each op has to wait for, as far as a test asked for it.
#ifndef SCD_TESTS_SUPPORT_CUDA_SHIM_OPERATION_LOG_H_
#define SCD_TESTS_SUPPORT_CUDA_SHIM_OPERATION_LOG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

struct CUstream_st;

namespace scd::cuda_shim {

enum class OpKind { kKernel, kCopyToDevice, kCopyToHost, kCopyOnDevice, kSet, kWait };

// Where nothing leads from one op to another, a device may run both at once.
struct OperationLog {
  struct Op {
    OpKind kind;
    const CUstream_st* stream;
    std::vector<std::size_t>
        after;  // the op before it in its stream, and for kWait the one that it waits for
  };
  std::vector<Op> ops;
  std::vector<const CUstream_st*> synchronized;  // streams that the host waited for, each time

  // Whether `op` can only run after one for which `is_cause` holds.
  bool Follows(std::size_t op, const std::function<bool(const Op&)>& is_cause) const;
};

// The last op of a stream, or before an event; of one log.
struct LogMark {
  std::optional<std::size_t> op;
  std::uint64_t log = 0;
};

// Notes nothing unless a log was begun. For one thread at a time.
class OperationLogger {
 public:
  void Start();
  // Ends the log.
  OperationLog Take();

  // An op of a stream whose last one was `last`, which becomes this one; it waits for `awaited` too (may be
  // null).
  void Add(OpKind kind, const CUstream_st* stream, LogMark& last, const LogMark* awaited);
  void AddSynchronized(const CUstream_st* stream);

 private:
  std::optional<OperationLog> log_;
  std::uint64_t number_ = 0;
};

}  // namespace scd::cuda_shim

#endif  // SCD_TESTS_SUPPORT_CUDA_SHIM_OPERATION_LOG_H_
