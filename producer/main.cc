#include <cstdlib>

#include "common/server/daemon.h"
#include "common/server/service_manager.h"
#include "producer/producer_daemon.h"

int main(int argc, char** argv) {
  scd::ProducerDaemon daemon;
  return scd::RunDaemon(daemon, argc, argv, scd::ReadyNotice(std::getenv("NOTIFY_SOCKET")));
}
