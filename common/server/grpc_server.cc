#include "common/server/grpc_server.h"

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/io/mapped_file.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  if (file->size() > kMaxBytes || file->text().find("-----BEGIN ") == absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a PEM file of at most 1 MiB"));
  }
  return std::string(file->text());
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeCredentials(const TlsFiles& tls) {
  if (tls.certificate.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options;
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  SCD_ASSIGN_OR_RETURN(pair.cert_chain, ReadPem(tls.certificate));
  SCD_ASSIGN_OR_RETURN(pair.private_key, ReadPem(tls.key));
  options.pem_key_cert_pairs.push_back(std::move(pair));
  if (!tls.client_ca.empty()) {
    SCD_ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem(tls.client_ca));
    options.client_certificate_request = GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  return grpc::SslServerCredentials(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options,
                                                              absl::Span<const NamedService> services) {
  SCD_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ServerCredentials> credentials,
                       MakeCredentials(options.tls));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.listen.ToString(), credentials, &port);
  // Without this a second daemon on the same port would silently get half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, options.keepalive_seconds * 1000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  for (const NamedService& service : services) builder.RegisterService(service.service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", options.listen.ToString(), ": the address is in use or not of this machine",
        options.tls.certificate.empty() ? "" : ", or the TLS files do not fit"));
  }
  for (const NamedService& service : services) {
    server->GetHealthCheckService()->SetServingStatus(service.name, true);
  }
  HostPort address = options.listen;
  address.port = port;
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(address), std::move(server)));
}

GrpcServer::GrpcServer(HostPort address, std::unique_ptr<grpc::Server> server)
    : address_(std::move(address)), server_(std::move(server)) {}

GrpcServer::~GrpcServer() {
  Shutdown(absl::ZeroDuration());
}

void GrpcServer::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void GrpcServer::Shutdown(absl::Duration grace) {
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(grace));
  server_->Wait();
}

}  // namespace scd
