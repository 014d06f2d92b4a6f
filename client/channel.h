// The gRPC channels of the client.
#ifndef SCD_CLIENT_CHANNEL_H_
#define SCD_CLIENT_CHANNEL_H_

#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace scd {

// Unencrypted, with a connection of its own.
inline std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
  constexpr int kMaxReceiveBytes = 64 << 20;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace scd

#endif  // SCD_CLIENT_CHANNEL_H_
