#include "consumer/code_client.h"

#include <utility>

#include "absl/status/status.h"
#include "consumer/grpc_code_stream.h"
#include "grpcpp/grpcpp.h"

namespace scd {
namespace {

// A frame holds at most 1 MiB; larger messages end the call before they are kept.
constexpr int kMaxMessageBytes = 4 << 20;
constexpr int kFirstReconnectMs = 100;
constexpr int kLastReconnectMs = 500;

class GrpcCodeClient final : public CodeClient {
 public:
  GrpcCodeClient(const CodeClientOptions& options, const PeerIdentity& expected)
      : peer_(std::make_shared<ProducerPeer>([options] { return MakeChannel(options); }, options, expected)) {
  }

  std::shared_ptr<CodeStream> Prepare(CodeRequest request, std::shared_ptr<CodeSink> sink) override {
    return std::make_shared<GrpcCodeStream>(peer_, std::move(request), std::move(sink));
  }

 private:
  static std::shared_ptr<grpc::Channel> MakeChannel(const CodeClientOptions& options) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    // Codes do not compress, and a small compressed message may claim gigabytes.
    arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
    arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    // A producer that was restarted is found again soon. The "minimum" is the time that one attempt to
    // connect gets.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastReconnectMs);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                     static_cast<int>(absl::ToInt64Milliseconds(options.connect_timeout)));
    // Two consumers in one process must not share one connection's state.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments);
  }

  const std::shared_ptr<ProducerPeer> peer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CodeClient>> CodeClient::Create(const CodeClientOptions& options,
                                                               const BundleManifest& manifest,
                                                               const Digest& bundle) {
  if (options.address.empty()) return absl::InvalidArgumentError("producer.address: is empty");
  return std::make_unique<GrpcCodeClient>(options, ExpectedProducer(manifest, bundle));
}

}  // namespace scd
