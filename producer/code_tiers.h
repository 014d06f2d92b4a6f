// The code stores that the producer's configuration names, as one, and what operators see of them.
#ifndef SCD_PRODUCER_CODE_TIERS_H_
#define SCD_PRODUCER_CODE_TIERS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/server/log.h"
#include "common/server/metrics.h"
#include "common/store/code_store.h"
#include "common/store/redis_sources.h"
#include "producer/config.h"

namespace scd {

// Whether OpenCodeStore can work, as far as can be seen without changing anything. Errors name the field.
absl::Status CheckCodeStore(const CodeStoreConfig& config);

// Memory first, then the disk, then a server; null where none is wanted. `log` outlives it and hears what
// goes wrong there; a server that is away is no error. FAILED_PRECONDITION where another process has the
// folder; errors name the field. `sources`: what this producer enters itself as where others look for its
// codes.
absl::StatusOr<std::unique_ptr<CodeStore>> OpenCodeStore(const CodeStoreConfig& config, Log& log,
                                                         std::vector<CodeSource> sources = {});

// scd_code_store_*{tier}. `store` outlives the registry's gauges.
void AddCodeStoreMetrics(MetricsRegistry& metrics, const CodeStore& store);

// "codes in memory (256 MiB) and on disk (/var/lib/scd/codes, 12 blocks, 3 of 4096 MiB)"; null: "no code
// store".
std::string DescribeCodeStore(const CodeStore* store);

}  // namespace scd

#endif  // SCD_PRODUCER_CODE_TIERS_H_
