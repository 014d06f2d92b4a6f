// Where a daemon's log lines go. Passed to whoever logs; there is no global logger.
#ifndef SCD_COMMON_SERVER_LOG_H_
#define SCD_COMMON_SERVER_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace scd {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

// Thread-safe. A message is one line.
class Log {
 public:
  virtual ~Log() = default;
  virtual void Write(LogLevel level, std::string_view message) = 0;

  void Debug(std::string_view message) { Write(LogLevel::kDebug, message); }
  void Info(std::string_view message) { Write(LogLevel::kInfo, message); }
  void Warning(std::string_view message) { Write(LogLevel::kWarning, message); }
  void Error(std::string_view message) { Write(LogLevel::kError, message); }
};

// "2025-01-31T12:00:00.123+00:00 info  message" on standard error; lines under `level` are dropped.
std::unique_ptr<Log> MakeStderrLog(LogLevel level);

// Text from outside (request ids, peers) made fit for one log line: at most 128 bytes, control characters and
// bytes that are not ASCII as \xNN.
std::string LogSafe(std::string_view text);

}  // namespace scd

#endif  // SCD_COMMON_SERVER_LOG_H_
