// A gRPC server with what every daemon has: health service, reflection, size limits, keepalive, optional TLS,
// and the port that it really listens on.
#ifndef SCD_COMMON_SERVER_GRPC_SERVER_H_
#define SCD_COMMON_SERVER_GRPC_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/server/listen_address.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace scd {

struct TlsFiles {
  std::string certificate;  // PEM chain; empty: no TLS
  std::string key;          // PEM
  std::string client_ca;    // PEM; where given, clients must show a certificate signed by it
};

struct GrpcServerOptions {
  HostPort listen;
  int max_message_bytes = 16 << 20;  // received and sent
  int keepalive_seconds = 60;        // idle connections are probed this often
  TlsFiles tls;
};

struct NamedService {
  std::string name;  // as the health service knows it: "scd.v1.Producer"
  grpc::Service* service = nullptr;
};

class GrpcServer {
 public:
  // Listens and serves; the health service says SERVING. UNAVAILABLE naming the address where it cannot
  // listen, NOT_FOUND or INVALID_ARGUMENT for TLS files. The services outlive this. Compressed messages are
  // refused: codes do not compress, and a small one may claim gigabytes.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options,
                                                           absl::Span<const NamedService> services);
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;
  ~GrpcServer();  // shuts down at once

  const HostPort& address() const { return address_; }
  int port() const { return address_.port; }

  // What the health service answers for the server and each service.
  void SetServing(bool serving);

  // Takes no new calls, waits up to `grace` for those that run, then cancels them and waits until they ended.
  void Shutdown(absl::Duration grace);

 private:
  GrpcServer(HostPort address, std::unique_ptr<grpc::Server> server);
  const HostPort address_;
  const std::unique_ptr<grpc::Server> server_;
};

}  // namespace scd

#endif  // SCD_COMMON_SERVER_GRPC_SERVER_H_
