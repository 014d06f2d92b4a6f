// Writes the tiny pair into a new folder and the daemons' command lines, one argument a line, beside it:
// FOLDER/producer.args and FOLDER/consumer.args. For tests that start the daemons by other means than
// DaemonPair.
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "tests/e2e/daemon_pair.h"

namespace {

bool WriteLines(const std::string& path, const std::vector<std::string>& lines) {
  std::ofstream file(path);
  for (const std::string& line : lines) file << line << '\n';
  return file.flush().good();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: write_tiny_pair FOLDER PRODUCER_ADDRESS" << std::endl;
    return 2;
  }
  const std::string folder = argv[1];
  const auto files = scd::testing::MakeTinyPair(folder);
  if (!files.ok()) {
    std::cerr << files.status() << std::endl;
    return 1;
  }
  const bool written =
      WriteLines(folder + "/producer.args", scd::testing::ProducerArguments(*files)) &&
      WriteLines(folder + "/consumer.args", scd::testing::ConsumerArguments(*files, argv[2]));
  return written ? 0 : 1;
}
