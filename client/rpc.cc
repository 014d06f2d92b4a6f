#include "client/rpc.h"

#include <chrono>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "common/server/status_mapping.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "kernels/status_macros.h"
#include "scd/v1/consumer.grpc.pb.h"
#include "scd/v1/producer.grpc.pb.h"

namespace scd {
namespace {

// How long a change of the channel is waited for before `stop` is looked at again.
constexpr absl::Duration kPollInterval = absl::Milliseconds(100);

// HealthCheckRequest { string service = 1; }
std::string HealthRequest(const std::string& service) {
  std::string bytes("\x0A", 1);
  std::size_t size = service.size();
  for (; size >= 0x80; size >>= 7) bytes.push_back(static_cast<char>((size & 0x7F) | 0x80));
  bytes.push_back(static_cast<char>(size));
  return bytes + service;
}

// HealthCheckResponse { enum status = 1; }: UNKNOWN 0, SERVING 1, NOT_SERVING 2, SERVICE_UNKNOWN 3.
constexpr char kServing[] = "\x08\x01";

std::string AllBytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return "";
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// One call's context, which `stop` cancels.
class Call {
 public:
  Call(std::stop_token stop, absl::Duration deadline)
      : stop_(std::move(stop)), cancel_(stop_, Cancel{&context_}) {
    if (deadline < absl::InfiniteDuration()) {
      context_.set_deadline(absl::ToChronoTime(absl::Now() + deadline));
    }
  }
  grpc::ClientContext* context() { return &context_; }
  // The status of the call, or why it was ended from here.
  absl::Status Finish(const grpc::Status& status) const {
    if (!status.ok() && stop_.stop_requested()) return absl::CancelledError("interrupted");
    return FromGrpcStatus(status);
  }

 private:
  struct Cancel {
    grpc::ClientContext* context;
    void operator()() const { context->TryCancel(); }
  };
  grpc::ClientContext context_;
  std::stop_token stop_;
  std::stop_callback<Cancel> cancel_;
};

}  // namespace

struct Connection::State {
  std::shared_ptr<grpc::Channel> channel;
  std::stop_token stop;
};

Connection::Connection(std::unique_ptr<State> state) : state_(std::move(state)) {}
Connection::~Connection() = default;

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const std::string& address,
                                                             absl::Duration timeout, std::stop_token stop) {
  auto channel = NewChannel(address);
  const absl::Time deadline = absl::Now() + timeout;
  auto state = channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY) {
    if (stop.stop_requested()) return absl::CancelledError("interrupted");
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) {
      return absl::UnavailableError(absl::StrCat("nothing answers at ", address));
    }
    if (absl::Now() >= deadline) {
      return absl::UnavailableError(
          absl::StrCat("no connection to ", address, " within ", absl::FormatDuration(timeout)));
    }
    channel->WaitForStateChange(state, absl::ToChronoTime(std::min(deadline, absl::Now() + kPollInterval)));
    state = channel->GetState(/*try_to_connect=*/true);
  }
  return absl::WrapUnique(
      new Connection(std::make_unique<State>(State{std::move(channel), std::move(stop)})));
}

absl::Status Connection::Generate(
    const v1::GenerateRequest& request, absl::Duration deadline,
    const std::function<absl::Status(const v1::GenerateResponse&)>& on_message) {
  Call call(state_->stop, deadline);
  const auto stub = v1::Consumer::NewStub(state_->channel);
  const auto reader = stub->Generate(call.context(), request);
  v1::GenerateResponse response;
  bool done = false;
  absl::Status status;
  while (reader->Read(&response)) {
    done = response.has_done();
    status = on_message(response);
    if (status.ok()) continue;
    call.context()->TryCancel();
    break;
  }
  if (!status.ok()) {
    while (reader->Read(&response)) {
    }
    reader->Finish();
    return status;
  }
  SCD_RETURN_IF_ERROR(call.Finish(reader->Finish()));
  if (!done) return absl::InternalError("the answer ended without its last message");
  return absl::OkStatus();
}

absl::StatusOr<v1::ScoreResponse> Connection::Score(const v1::ScoreRequest& request,
                                                    absl::Duration deadline) {
  Call call(state_->stop, deadline);
  v1::ScoreResponse response;
  SCD_RETURN_IF_ERROR(
      call.Finish(v1::Consumer::NewStub(state_->channel)->Score(call.context(), request, &response)));
  return response;
}

absl::StatusOr<v1::ConsumerInfo> Connection::ConsumerInfo(absl::Duration deadline) {
  Call call(state_->stop, deadline);
  v1::ConsumerInfo response;
  SCD_RETURN_IF_ERROR(
      call.Finish(v1::Consumer::NewStub(state_->channel)->Info(call.context(), {}, &response)));
  return response;
}

absl::StatusOr<v1::ProducerInfo> Connection::ProducerInfo(absl::Duration deadline) {
  Call call(state_->stop, deadline);
  v1::ProducerInfo response;
  SCD_RETURN_IF_ERROR(
      call.Finish(v1::Producer::NewStub(state_->channel)->Info(call.context(), {}, &response)));
  return response;
}

absl::Status Connection::CheckHealth(const std::string& service, absl::Duration deadline) {
  Call call(state_->stop, deadline);
  const grpc::Slice slice(HealthRequest(service));
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification finished;
  grpc::GenericStub stub(state_->channel);
  stub.UnaryCall(call.context(), "/grpc.health.v1.Health/Check", {}, &request, &response,
                 [&](grpc::Status s) {
                   status = std::move(s);
                   finished.Notify();
                 });
  finished.WaitForNotification();
  SCD_RETURN_IF_ERROR(call.Finish(status));
  if (AllBytes(response) == kServing) return absl::OkStatus();
  return absl::UnavailableError("it does not serve");
}

}  // namespace scd
