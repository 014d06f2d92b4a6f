// One call of Consumer.Score: teacher-forced log-probabilities of a continuation, and if asked their distance
// from the model's own native prefill, which a second, local request to the same engine gives.
#ifndef SCD_CONSUMER_SCORE_CALL_H_
#define SCD_CONSUMER_SCORE_CALL_H_

#include "consumer/serving.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

// Starts the call; the reactor owns itself. `request` and `response` live until its OnDone.
grpc::ServerUnaryReactor* StartScoreCall(Serving& serving, grpc::CallbackServerContext* context,
                                         const v1::ScoreRequest& request, v1::ScoreResponse* response);

}  // namespace scd

#endif  // SCD_CONSUMER_SCORE_CALL_H_
