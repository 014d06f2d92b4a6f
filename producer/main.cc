#include "common/server/daemon.h"
#include "producer/producer_daemon.h"

int main(int argc, char** argv) {
  scd::ProducerDaemon daemon;
  return scd::RunDaemon(daemon, argc, argv);
}
