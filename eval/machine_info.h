// The machine that a measurement ran on.
#ifndef SCD_EVAL_MACHINE_INFO_H_
#define SCD_EVAL_MACHINE_INFO_H_

#include <cstdint>
#include <string>

namespace scd {

struct MachineInfo {
  std::string cpu;         // "AMD EPYC 7B13"
  std::int64_t cores = 0;  // that this process may use
  double memory_gib = 0;
  std::string os;  // "Debian GNU/Linux 12 (bookworm)"
};

// What cannot be found out stays empty.
MachineInfo ThisMachine();

// "2026-11-30T10:00:00Z".
std::string UtcNow();

}  // namespace scd

#endif  // SCD_EVAL_MACHINE_INFO_H_
