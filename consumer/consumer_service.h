// scd.v1.Consumer over gRPC's callback API.
#ifndef SCD_CONSUMER_CONSUMER_SERVICE_H_
#define SCD_CONSUMER_CONSUMER_SERVICE_H_

#include <memory>

#include "consumer/serving.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

// `info`: what Info answers, without the figures that change. `serving` outlives the service and its calls.
std::unique_ptr<grpc::Service> CreateConsumerService(Serving& serving, v1::ConsumerInfo info);

}  // namespace scd

#endif  // SCD_CONSUMER_CONSUMER_SERVICE_H_
