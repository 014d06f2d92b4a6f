// Which of the instruction sets that the vectorised code was built for this CPU runs.
#ifndef SCD_KERNELS_CPU_INSTRUCTION_SET_H_
#define SCD_KERNELS_CPU_INSTRUCTION_SET_H_

namespace scd::cpu {

// "AVX2", "AVX3", "NEON", ...
const char* InstructionSetName();

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_INSTRUCTION_SET_H_
