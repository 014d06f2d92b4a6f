// Checks of the numbers on a command line that CLI11's own let through.
#ifndef SCD_CLIENT_NUMBER_CHECKS_H_
#define SCD_CLIENT_NUMBER_CHECKS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace scd {

// A finite number from min to max; to CLI::Range nan is in every range. `name` stands in the help instead of
// the range, where it is not empty. What the option holds in a float has to be finite there: FiniteFloat.
CLI::Validator FiniteNumber(double min, double max, const std::string& name = "");
CLI::Validator FiniteFloat(float min, float max, const std::string& name = "");

// A decimal number of 64 bits without a sign: CLI11 takes -1 for 2^64 - 1 and cuts what is longer.
CLI::Validator WholeNumber();

// Throws CLI::ValidationError where a list in `arguments`, those of `command`, has an empty element: CLI11
// drops it, and 1,,2 would be two numbers.
void CheckLists(const CLI::App& command, const std::vector<std::string>& arguments);

}  // namespace scd

#endif  // SCD_CLIENT_NUMBER_CHECKS_H_
