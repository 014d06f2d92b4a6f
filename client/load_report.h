// How the figures of a load are written. docs/benchmarks.md describes the JSON document.
#ifndef SCD_CLIENT_LOAD_REPORT_H_
#define SCD_CLIENT_LOAD_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/bench/level_result.h"
#include "client/bench/load_options.h"
#include "nlohmann/json.hpp"

namespace scd {

// "concurrency 4", or "2.5 requests/s" where concurrency is 0.
std::string LevelName(std::uint32_t concurrency, double rate_per_s);
// Several lines, each ended.
std::string DescribeLevel(const LevelResult& level);
// A line for each level; empty for a single one.
std::string DescribeSweep(const std::vector<LevelResult>& levels);

nlohmann::json LevelJson(const LevelResult& level);
// Without levels and what else a run adds.
nlohmann::json LoadJson(const LoadOptions& options);
nlohmann::json ErrorsJson(const LevelResult& level);

}  // namespace scd

#endif  // SCD_CLIENT_LOAD_REPORT_H_
