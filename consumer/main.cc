#include <cstdlib>

#include "common/server/daemon.h"
#include "common/server/service_manager.h"
#include "consumer/consumer_daemon.h"

int main(int argc, char** argv) {
  scd::ConsumerDaemon daemon;
  return scd::RunDaemon(daemon, argc, argv, scd::ReadyNotice(std::getenv("NOTIFY_SOCKET")));
}
