#include "common/server/daemon.h"
#include "consumer/consumer_daemon.h"

int main(int argc, char** argv) {
  scd::ConsumerDaemon daemon;
  return scd::RunDaemon(daemon, argc, argv);
}
