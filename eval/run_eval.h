// The whole program but for the process around it.
#ifndef SCD_EVAL_RUN_EVAL_H_
#define SCD_EVAL_RUN_EVAL_H_

#include <string>
#include <vector>

#include "eval/eval_run.h"
#include "eval/options.h"

namespace scd {

// `arguments` without the program's name.
EvalExit RunEval(const std::vector<std::string>& arguments, const EvalTerminal& terminal);

}  // namespace scd

#endif  // SCD_EVAL_RUN_EVAL_H_
