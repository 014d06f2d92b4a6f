// The measured figures for people: tables of plain text.
#ifndef SCD_EVAL_TEXT_TABLE_H_
#define SCD_EVAL_TEXT_TABLE_H_

#include <string>
#include <vector>

#include "eval/results.h"

namespace scd {

// Columns as wide as they need to be, the first to the left, the others to the right. `rows` start with the
// heading.
std::string AlignedTable(const std::vector<std::vector<std::string>>& rows);

// Every section that the results have; columns in which no row has a figure are left out.
std::string DescribeResults(const Results& results);

}  // namespace scd

#endif  // SCD_EVAL_TEXT_TABLE_H_
