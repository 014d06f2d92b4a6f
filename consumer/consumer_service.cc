#include "consumer/consumer_service.h"

#include <utility>

#include "consumer/generate_call.h"
#include "consumer/score_call.h"
#include "scd/v1/consumer.grpc.pb.h"

namespace scd {
namespace {

class ConsumerService final : public v1::Consumer::CallbackService {
 public:
  ConsumerService(Serving& serving, v1::ConsumerInfo info) : serving_(serving), info_(std::move(info)) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(grpc::CallbackServerContext* context,
                                                           const v1::GenerateRequest* request) override {
    return StartGenerateCall(serving_, context, *request);
  }

  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* context, const v1::ScoreRequest* request,
                                  v1::ScoreResponse* response) override {
    return StartScoreCall(serving_, context, *request, response);
  }

  grpc::ServerUnaryReactor* Info(grpc::CallbackServerContext* context, const v1::ConsumerInfoRequest*,
                                 v1::ConsumerInfo* response) override {
    const Engine::Stats stats = serving_.engine.stats();
    *response = info_;
    response->set_kv_pages_used(static_cast<std::uint32_t>(stats.pages_used));
    response->set_kv_pages_cached(static_cast<std::uint32_t>(stats.pages_indexed));
    response->set_kv_pages_total(static_cast<std::uint32_t>(stats.pages_total));
    response->set_requests_in_flight(static_cast<std::uint32_t>(serving_.requests.num_in_flight()));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  Serving& serving_;
  const v1::ConsumerInfo info_;
};

}  // namespace

std::unique_ptr<grpc::Service> CreateConsumerService(Serving& serving, v1::ConsumerInfo info) {
  return std::make_unique<ConsumerService>(serving, std::move(info));
}

}  // namespace scd
