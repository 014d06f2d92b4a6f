// A producer's service on loopback over the tiny producer, and a client that checks what it streams.
#ifndef SCD_TESTS_PRODUCER_SERVICE_RIG_H_
#define SCD_TESTS_PRODUCER_SERVICE_RIG_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/server/grpc_server.h"
#include "common/server/metrics.h"
#include "common/server/request_tracker.h"
#include "common/store/code_keys.h"
#include "common/wire/frame_codec.h"
#include "common/wire/transfer_checker.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "producer/code_tiers.h"
#include "producer/prefill_service.h"
#include "scd/v1/producer.grpc.pb.h"
#include "tests/producer/producer_rig.h"
#include "tests/support/loopback.h"

namespace scd::testing {

struct ServiceOptions {
  PrefillEngineOptions engine{.chunk_tokens = 64, .kv_tokens = 1024, .block_tokens = 16};
  std::int64_t store_bytes = 1 << 24;  // 0: no store
  std::string disk_path = {};          // codes are kept there too
  CodeStore* store = nullptr;          // instead of those
  std::int64_t queue_frames = 64;
  std::int64_t max_streams = 64;
  absl::Duration stall_timeout = absl::Seconds(60);
};

class ServiceRig {
 public:
  explicit ServiceRig(const ServiceOptions& options = {}) : store_(options.store_bytes) {
    TinyProducer& tiny = SharedTinyProducer();
    CodeStore* store = options.store_bytes > 0 ? &store_ : nullptr;
    if (!options.disk_path.empty()) {
      CodeStoreConfig config{.capacity_mib = options.store_bytes >> 20, .disk = {.path = options.disk_path}};
      auto tiers = OpenCodeStore(config, log_);
      EXPECT_TRUE(tiers.ok()) << tiers.status();
      tiers_ = *std::move(tiers);
      store = tiers_.get();
    }
    if (options.store != nullptr) store = options.store;
    auto engine = PrefillEngine::Create(tiny.transformer(), options.engine, store);
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    v1::ProducerInfo info;
    info.set_version("test");
    service_ = std::make_unique<PrefillService>(
        PrefillServiceParts{.bundles = tiny.bundles(),
                            .engine = *engine_,
                            .store = store,
                            .block_tokens = options.engine.block_tokens,
                            .max_prompt_tokens = tiny.transformer().max_positions(),
                            .queue_frames = options.queue_frames,
                            .max_streams = options.max_streams,
                            .stall_timeout = options.stall_timeout,
                            .info = info,
                            .model_digest = tiny.model().digest,
                            .state_seed = StateSeed(tiny.model().digest, "dense", DType::kF32),
                            .vocab_size = tiny.model().config.vocab_size,
                            .log = log_,
                            .metrics = metrics_,
                            .ended_calls = ended_calls_,
                            .requests = requests_});
    const std::vector<NamedService> services = {{"scd.v1.Producer", service_.get()}};
    GrpcServerOptions server_options;
    server_options.listen = {"127.0.0.1", 0};
    auto server = GrpcServer::Start(server_options, services);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~ServiceRig() { server_->Shutdown(absl::ZeroDuration()); }

  PrefillEngine& engine() { return *engine_; }
  PrefillService& service() { return *service_; }
  MemoryCodeStore& store() { return store_; }
  RequestTracker& requests() { return requests_; }
  MetricsRegistry& registry() { return registry_; }
  KeptLog& log() { return log_; }
  int port() const { return server_->port(); }
  std::unique_ptr<v1::Producer::Stub> Stub() { return v1::Producer::NewStub(LoopbackChannel(port())); }

  // Whether no request, page or queue place is taken.
  bool Idle() {
    const PrefillEngine::Stats stats = engine_->stats();
    return requests_.num_in_flight() == 0 && stats.pages_used == 0 && stats.num_queued == 0 &&
           stats.num_active == 0;
  }

 private:
  MemoryCodeStore store_;
  KeptLog log_;
  MetricsRegistry registry_;
  TransferMetrics metrics_{registry_};
  RequestMetrics ended_calls_{registry_, {"Prefill"}};
  RequestTracker requests_;
  std::unique_ptr<CodeStore> tiers_;  // in place of store_
  std::unique_ptr<PrefillEngine> engine_;
  std::unique_ptr<PrefillService> service_;
  std::unique_ptr<GrpcServer> server_;
};

// A good request for bundle 0.
inline v1::PrefillRequest PrefillOf(const std::vector<std::int32_t>& tokens, std::uint32_t first_token = 1,
                                    Codec codec = Codec::kBF16) {
  TinyProducer& tiny = SharedTinyProducer();
  v1::PrefillRequest request;
  request.set_request_id("test");
  request.set_bundle_digest(std::string(tiny.bundle(0).digest().bytes()));
  *request.mutable_plan() = PlanToProto(tiny.Plan(codec));
  request.mutable_token_ids()->Assign(tokens.begin(), tokens.end());
  request.set_first_token(first_token);
  request.set_end_token(static_cast<std::uint32_t>(tokens.size()));
  return request;
}

// What one whole stream brought.
struct Received {
  grpc::Status status;
  std::optional<v1::PrefillHeader> header;
  std::optional<v1::PrefillTrailer> trailer;
  CodesByColumn codes;
  std::uint64_t num_frames = 0;
  std::uint64_t payload_bytes = 0;
  std::vector<CodeKind> kinds;       // of the frames, in order
  std::vector<std::int64_t> layers;  // of the frames, in order
};

// Takes one message into `received`; the order of messages and every frame are checked as a consumer does.
class StreamChecker {
 public:
  explicit StreamChecker(Received& received) : received_(received) {}

  void Take(v1::PrefillResponse message) {
    ASSERT_FALSE(received_.trailer.has_value()) << "a message after the trailer";
    if (message.has_header()) {
      ASSERT_FALSE(received_.header.has_value()) << "a second header";
      received_.header = message.header();
      const absl::StatusOr<LayerPlan> plan = PlanFromProto(message.header().plan());
      ASSERT_TRUE(plan.ok()) << plan.status();
      checker_.emplace(*plan, message.header().first_token(), message.header().end_token());
    } else if (message.has_frame()) {
      ASSERT_TRUE(checker_.has_value()) << "a frame before the header";
      absl::StatusOr<LayerCode> code = FromFrame(std::move(*message.mutable_frame()));
      ASSERT_TRUE(code.ok()) << code.status();
      ASSERT_TRUE(checker_->Accept(*code).ok()) << checker_->Accept(*code);
      ++received_.num_frames;
      received_.payload_bytes += code->payload.size();
      received_.kinds.push_back(code->kind);
      received_.layers.push_back(code->layer);
      Append(received_.codes, *code);
    } else {
      ASSERT_TRUE(checker_.has_value() && checker_->complete()) << "a trailer before all frames";
      received_.trailer = message.trailer();
    }
  }

 private:
  Received& received_;
  std::optional<TransferChecker> checker_;
};

inline Received Fetch(v1::Producer::Stub& stub, const v1::PrefillRequest& request) {
  Received received;
  StreamChecker checker(received);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto reader = stub.Prefill(&context, request);
  v1::PrefillResponse message;
  while (reader->Read(&message)) checker.Take(std::move(message));
  received.status = reader->Finish();
  return received;
}

// A channel whose reader holds back the sender soon: small windows, no probing.
inline std::shared_ptr<grpc::Channel> NarrowChannel(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace scd::testing

#endif  // SCD_TESTS_PRODUCER_SERVICE_RIG_H_
