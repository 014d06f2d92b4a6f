// A client of a producer that knows where its codes may be without it: in the shared store, after a producer
// was found to be away or too busy, or before one is asked.
//
// Where the store has not enough of a prompt, everything is as without it: the outcome is the producer's.
#ifndef SCD_CONSUMER_SHARED_CODE_CLIENT_H_
#define SCD_CONSUMER_SHARED_CODE_CLIENT_H_

#include <cstdint>
#include <memory>

#include "consumer/code_client.h"
#include "consumer/shared_codes.h"

namespace scd {

struct SharedCodeOptions {
  bool first = false;             // ask the store before the producer
  std::int64_t queue_frames = 8;  // codes of one transfer that wait for rebuilding
};

// `shared` outlives the client.
std::unique_ptr<CodeClient> CreateSharedCodeClient(std::unique_ptr<CodeClient> producer, SharedCodes& shared,
                                                   const SharedCodeOptions& options);

}  // namespace scd

#endif  // SCD_CONSUMER_SHARED_CODE_CLIENT_H_
