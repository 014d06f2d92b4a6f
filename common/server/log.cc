#include "common/server/log.h"

#include "spdlog/logger.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace scd {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

class StderrLog : public Log {
 public:
  explicit StderrLog(LogLevel level) : logger_("scd", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger_.set_level(ToSpdlog(level));
    logger_.set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %-7l %v");
    logger_.flush_on(spdlog::level::debug);
  }

  void Write(LogLevel level, std::string_view message) override {
    logger_.log(ToSpdlog(level), spdlog::string_view_t(message.data(), message.size()));
  }

 private:
  spdlog::logger logger_;
};

}  // namespace

std::unique_ptr<Log> MakeStderrLog(LogLevel level) {
  return std::make_unique<StderrLog>(level);
}

std::string LogSafe(std::string_view text) {
  constexpr std::size_t kMaxBytes = 128;
  constexpr char kHex[] = "0123456789abcdef";
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte > 0x20 && byte < 0x7F && c != '\\';
    if (safe.size() + (plain ? 1 : 4) > kMaxBytes - 3) return safe + "...";
    if (plain) {
      safe += c;
    } else {
      safe += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return safe;
}

}  // namespace scd
