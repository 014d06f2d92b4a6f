// Names of trace files: "<request id>.<side>.<sequence>.json", for example "consumer-7.producer.000012.json".
//
// Request ids come from outside: in a name only letters, digits, '-', '_' and '.' of them stay, at most
// kMaxNameIdBytes bytes, and never a first '.'.
#ifndef SCD_COMMON_TRACE_TRACE_FILE_NAME_H_
#define SCD_COMMON_TRACE_TRACE_FILE_NAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace scd {

inline constexpr std::size_t kMaxNameIdBytes = 64;
// What a file has behind its name while it is written.
inline constexpr std::string_view kPartSuffix = ".part";

// side: letters, digits and '-' alone.
std::string TraceFileName(std::string_view request_id, std::string_view side, std::int64_t sequence);

// The sequence of a file of this side, finished or a part; nothing for any other name.
std::optional<std::int64_t> SequenceOfTraceFile(std::string_view name, std::string_view side);

}  // namespace scd

#endif  // SCD_COMMON_TRACE_TRACE_FILE_NAME_H_
