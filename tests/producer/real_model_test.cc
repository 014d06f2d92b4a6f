// The producer over the real base model: what the tiny one cannot show about time.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "producer/prefill_service.h"
#include "tests/producer/service_rig.h"
#include "tests/support/shared_data.h"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

TEST(RealProducerTest, ACancelledClientStopsALongPrefillWithinTwoHundredMilliseconds) {
  SCD_BASE_MODEL_OR_SKIP(path);
  const auto backend = CreateBackend({.device = "cpu"});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto model = OpenModel({.path = path, .adapter = "", .config = ""});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto transformer = Transformer::Create(model->config, *model->weights, **backend);
  ASSERT_TRUE(transformer.ok()) << transformer.status();
  const testing::TempDir dir;
  const std::vector<std::string> folders = {dir.File("bundle")};
  testing::TinyBundleOptions bundle_options;
  bundle_options.max_rank_k = bundle_options.default_rank_k = 96;
  bundle_options.max_rank_v = bundle_options.default_rank_v = 128;
  ASSERT_TRUE(testing::WriteTinyBundle(folders[0], model->config,
                                       {"base", model->digest, model->tokenizer->digest()},
                                       testing::MadeUpModel("expert"), bundle_options)
                  .ok());
  const auto bundles = BundleSet::Open(folders, model->config, model->digest, model->tokenizer->digest());
  ASSERT_TRUE(bundles.ok()) << bundles.status();

  constexpr int kTokens = 2048;
  const auto engine = PrefillEngine::Create(**transformer, {.kv_tokens = kTokens}, nullptr);
  ASSERT_TRUE(engine.ok()) << engine.status();
  testing::KeptLog log;
  MetricsRegistry registry;
  TransferMetrics metrics(registry);
  RequestMetrics ended_calls(registry, {"Prefill"});
  RequestTracker requests;
  PrefillService service({.bundles = *bundles,
                          .engine = **engine,
                          .max_prompt_tokens = kTokens,
                          .info = {},
                          .model_digest = model->digest,
                          .vocab_size = model->config.vocab_size,
                          .log = log,
                          .metrics = metrics,
                          .ended_calls = ended_calls,
                          .requests = requests});
  GrpcServerOptions options;
  options.listen = {"127.0.0.1", 0};
  const std::vector<NamedService> services = {{"scd.v1.Producer", &service}};
  const auto server = GrpcServer::Start(options, services);
  ASSERT_TRUE(server.ok()) << server.status();

  v1::PrefillRequest request;
  const Bundle& bundle = *bundles->bundles().front();
  request.set_bundle_digest(std::string(bundle.digest().bytes()));
  const auto plan = bundle.ResolvePlan({});
  ASSERT_TRUE(plan.ok()) << plan.status();
  *request.mutable_plan() = PlanToProto(*plan);
  for (int i = 0; i < kTokens; ++i) request.add_token_ids(1000 + i);
  request.set_first_token(1);
  request.set_end_token(kTokens);

  const auto stub = v1::Producer::NewStub(testing::LoopbackChannel((*server)->port()));
  grpc::ClientContext context;
  const auto reader = stub->Prefill(&context, request);
  // In the second chunk, while the producer works.
  v1::PrefillResponse message;
  while (reader->Read(&message) &&
         !(message.has_frame() && message.frame().first_token() > 256 && message.frame().layer() > 4)) {
  }
  ASSERT_TRUE(message.has_frame());
  ASSERT_EQ((*engine)->stats().num_active, 1);
  const absl::Time cancelled = absl::Now();
  context.TryCancel();
  EXPECT_TRUE(testing::Eventually([&] {
    const PrefillEngine::Stats stats = (*engine)->stats();
    return stats.num_active == 0 && stats.pages_used == 0 && requests.num_in_flight() == 0;
  }));
  EXPECT_LT(absl::Now() - cancelled, absl::Milliseconds(200));
  (*server)->Shutdown(absl::ZeroDuration());
}

}  // namespace
}  // namespace scd
