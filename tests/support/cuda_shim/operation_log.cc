#include "tests/support/cuda_shim/operation_log.h"

#include <utility>

namespace scd::cuda_shim {

bool OperationLog::Follows(std::size_t op, const std::function<bool(const Op&)>& is_cause) const {
  std::vector<bool> seen(ops.size());
  std::vector<std::size_t> left = ops[op].after;
  while (!left.empty()) {
    const std::size_t cause = left.back();
    left.pop_back();
    if (seen[cause]) continue;
    seen[cause] = true;
    if (is_cause(ops[cause])) return true;
    left.insert(left.end(), ops[cause].after.begin(), ops[cause].after.end());
  }
  return false;
}

void OperationLogger::Start() {
  log_.emplace();
  ++number_;
}

OperationLog OperationLogger::Take() {
  OperationLog log = log_.has_value() ? *std::move(log_) : OperationLog{};
  log_.reset();
  return log;
}

void OperationLogger::Add(OpKind kind, const CUstream_st* stream, LogMark& last, const LogMark* awaited) {
  if (!log_.has_value()) return;
  OperationLog::Op op{kind, stream, {}};
  for (const LogMark* const mark : {static_cast<const LogMark*>(&last), awaited}) {
    if (mark != nullptr && mark->op && mark->log == number_) op.after.push_back(*mark->op);
  }
  last = {log_->ops.size(), number_};
  log_->ops.push_back(std::move(op));
}

void OperationLogger::AddSynchronized(const CUstream_st* stream) {
  if (log_.has_value()) log_->synchronized.push_back(stream);
}

}  // namespace scd::cuda_shim
