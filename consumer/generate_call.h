// One call of Consumer.Generate: a checked request, its tokens as text, and a bounded queue towards the
// client.
#ifndef SCD_CONSUMER_GENERATE_CALL_H_
#define SCD_CONSUMER_GENERATE_CALL_H_

#include "consumer/serving.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

// Starts the call; the reactor owns itself.
grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerateCall(Serving& serving,
                                                                  grpc::CallbackServerContext* context,
                                                                  const v1::GenerateRequest& request);

}  // namespace scd

#endif  // SCD_CONSUMER_GENERATE_CALL_H_
