// The rows of the table in YAML.
#ifndef SCD_EVAL_ROWS_CONFIG_H_
#define SCD_EVAL_ROWS_CONFIG_H_

#include <vector>

#include "common/config/yaml_reader.h"
#include "eval/mode_row.h"

namespace scd {

// `rows`, which replace those that are there. Errors stay in the reader: a mode that does not exist, settings
// that contradict it, two rows of one name in one group.
void ReadRows(YamlSection root, std::vector<ModeRow>* rows);

}  // namespace scd

#endif  // SCD_EVAL_ROWS_CONFIG_H_
