// What the command line of scd-client asks for.
#ifndef SCD_CLIENT_OPTIONS_H_
#define SCD_CLIENT_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/bench/load_options.h"

namespace scd {

// What the program returns to its caller.
enum class ExitCode : int {
  kOk = 0,
  kRequestFailed = 1,  // the server, or a file that was to be sent, said no; also interrupted
  kUsage = 2,
  kUnreachable = 3,  // no connection within the time allowed
};

enum class Command { kGenerate, kScore, kCompare, kBench, kInfo, kHealth };

// Where the prompt comes from: exactly one of the four.
struct PromptOptions {
  std::optional<std::string> text;
  std::optional<std::string> file;  // "-" is standard input
  std::vector<std::int32_t> ids;
  std::vector<std::string> chat;  // "role=content"
  bool allow_special_tokens = false;
};

struct SamplingOptions {
  float temperature = 0.0f;
  std::uint32_t top_k = 0;
  std::optional<float> top_p;
  float min_p = 0.0f;
  std::optional<float> repetition_penalty;
  std::uint64_t seed = 0;
};

// Absent fields leave the choice to the server.
struct TransferOptions {
  std::string mode;    // one of the consumer's modes, or empty
  std::string policy;  // "require", "prefer", "off" or empty
  std::optional<std::uint32_t> rank_k, rank_v, rank_h;
  std::optional<std::vector<std::uint32_t>> patch_layers;
  std::optional<std::uint32_t> native_head, native_tail;
  std::string codec;  // "bf16", "f32", "int8", "int4", "entropy" or empty
  std::optional<double> distortion;
  std::optional<std::pair<std::uint32_t, std::uint32_t>> recompute_layers;  // first and last
  std::uint32_t timeout_ms = 0;
  bool fresh = false;            // nothing from the producer's store and KV cache
  bool no_prefix_cache = false;  // nothing from the consumer's KV cache
};

struct Options {
  Command command = Command::kGenerate;
  std::string address = "127.0.0.1:7071";           // of the consumer, or what `health` asks
  std::string producer_address = "127.0.0.1:7070";  // info
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration deadline = absl::InfiniteDuration();  // of the whole request
  std::string request_id;
  bool json = false;
  bool quiet = false;  // no statistics on standard error

  PromptOptions prompt;
  TransferOptions transfer;

  // generate and compare
  std::uint32_t max_tokens = 0;  // 0: the server's default
  SamplingOptions sampling;
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_token_ids;
  bool ignore_eos = false;
  std::uint32_t top_logprobs = 0;

  // score
  std::optional<std::string> continuation;
  std::vector<std::int32_t> continuation_ids;
  bool compare_with_native = false;
  bool positions = false;  // a line for each position

  // compare
  std::optional<std::string> prompts_file;  // prompts between lines of "---"

  // bench; its requests also take max_tokens and transfer
  LoadOptions load;

  // info: "both", "consumer" or "producer"
  std::string role = "both";
  // health: the service asked about; empty: the server as a whole
  std::string service;
};

// Either options, or what to print and how to end (help and usage errors).
struct ParsedCommandLine {
  std::optional<Options> options;
  std::string message;
  ExitCode exit_code = ExitCode::kOk;
};

// `arguments` without the program's name.
ParsedCommandLine ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace scd

#endif  // SCD_CLIENT_OPTIONS_H_
