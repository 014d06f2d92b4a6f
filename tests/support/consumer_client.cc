#include "tests/support/consumer_client.h"

#include <chrono>
#include <thread>
#include <utility>

#include "tests/support/loopback.h"

namespace scd::testing {
namespace {

using Clock = std::chrono::steady_clock;

std::chrono::system_clock::time_point In(double seconds) {
  return std::chrono::system_clock::now() +
         std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

ConsumerClient::ConsumerClient(int port) : stub_(v1::Consumer::NewStub(LoopbackChannel(port))) {}

v1::GenerateRequest ConsumerClient::Request(const std::vector<std::int32_t>& prompt, const std::string& mode,
                                            v1::Policy policy, std::uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_tokens()->mutable_ids()->Add(prompt.begin(), prompt.end());
  request.set_max_tokens(max_tokens);
  request.set_ignore_eos(true);
  request.mutable_transfer()->set_mode(mode);
  request.mutable_transfer()->set_policy(policy);
  return request;
}

Answer ConsumerClient::Generate(const v1::GenerateRequest& request, double deadline_seconds,
                                grpc::ClientContext* context) {
  grpc::ClientContext own_context;
  if (context == nullptr) context = &own_context;
  context->set_deadline(In(deadline_seconds));
  const Clock::time_point start = Clock::now();
  const auto reader = stub_->Generate(context, request);
  Answer answer;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (response.has_token()) {
      answer.ids.push_back(response.token().id());
      answer.text += response.token().text();
      answer.tokens.push_back(response.token());
    } else {
      answer.done = response.done();
      answer.text += response.done().text();
    }
  }
  answer.status = reader->Finish();
  answer.seconds = SecondsSince(start);
  return answer;
}

grpc::Status ConsumerClient::Score(const v1::ScoreRequest& request, v1::ScoreResponse* response,
                                   double deadline_seconds) {
  grpc::ClientContext context;
  context.set_deadline(In(deadline_seconds));
  return stub_->Score(&context, request, response);
}

v1::ConsumerInfo ConsumerClient::Info() {
  grpc::ClientContext context;
  context.set_deadline(In(10));
  v1::ConsumerInfo info;
  if (!stub_->Info(&context, v1::ConsumerInfoRequest(), &info).ok()) info.Clear();
  return info;
}

bool ConsumerClient::BecomesIdle(double seconds) {
  const Clock::time_point start = Clock::now();
  do {
    const v1::ConsumerInfo info = Info();
    if (info.kv_pages_total() > 0 && info.requests_in_flight() == 0 && info.kv_pages_used() == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  } while (SecondsSince(start) < seconds);
  return false;
}

}  // namespace scd::testing
