// Options -> requests.
#ifndef SCD_CLIENT_REQUESTS_H_
#define SCD_CLIENT_REQUESTS_H_

#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/options.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

// INVALID_ARGUMENT naming the option or file that is wrong. `in` is standard input.
absl::StatusOr<v1::GenerateRequest> MakeGenerateRequest(const Options& options, std::istream& in);
absl::StatusOr<v1::ScoreRequest> MakeScoreRequest(const Options& options, std::istream& in);

// What every request of `compare` has in common, without a prompt.
v1::GenerateRequest MakeCompareRequest(const Options& options);
// What every request of `bench` has in common, without a prompt.
v1::GenerateRequest MakeLoadRequest(const Options& options);
// The prompts of `compare`.
absl::StatusOr<std::vector<std::string>> ReadComparePrompts(const Options& options);

// Texts between lines that are "---", without the line break before such a line and at the end; empty ones
// left out.
std::vector<std::string> SplitPrompts(std::string_view text);

}  // namespace scd

#endif  // SCD_CLIENT_REQUESTS_H_
