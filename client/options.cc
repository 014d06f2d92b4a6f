#include "client/options.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <memory>
#include <sstream>
#include <utility>

#include "client/number_checks.h"
#include "common/config/transfer_modes.h"
#include "common/server/command_line.h"

namespace scd {
namespace {

constexpr char kExitCodes[] =
    "Exit codes: 0 done (health: serving), 1 the request failed or was interrupted, 2 wrong usage, 3 no "
    "connection.\n"
    "Answers go to standard output, statistics and errors to standard error.";

constexpr std::uint64_t kDefaultLoadRequests = 32;

// Values that CLI11 writes, and what is made of them afterwards.
struct Raw {
  Options options;
  double connect_timeout_ms = 5000;
  double deadline_ms = 0;
  double duration_s = 0;
  std::vector<std::int64_t> patch_layers;
  std::vector<std::uint32_t> recompute_layers;
  bool no_patch = false;
};

void AddAddress(CLI::App* app, Raw* raw, const char* what) {
  app->add_option("--address,-a", raw->options.address, std::string("Address of the ") + what + ", host:port")
      ->capture_default_str();
  app->add_option("--connect-timeout-ms", raw->connect_timeout_ms, "Time allowed for the connection, in ms")
      ->check(FiniteNumber(1.0, 3600e3))
      ->capture_default_str();
  app->add_option("--deadline-ms", raw->deadline_ms, "Time allowed for a whole request, in ms; 0: none")
      ->check(FiniteNumber(0.0, 86400e3))
      ->capture_default_str();
}

void AddConnection(CLI::App* app, Raw* raw, const char* what) {
  AddAddress(app, raw, what);
  app->add_flag("--json", raw->options.json, "One JSON document instead of text");
}

void AddPrompt(CLI::App* app, Raw* raw) {
  PromptOptions& prompt = raw->options.prompt;
  auto* group = app->add_option_group("Prompt", "Exactly one of");
  group->add_option("--prompt,-p", prompt.text, "The prompt as text");
  group->add_option("--prompt-file", prompt.file, "A UTF-8 file with the prompt, whole; - is standard input");
  group->add_option("--ids", prompt.ids, "The prompt as token ids: 1,2,3")->delimiter(',');
  group
      ->add_option("--chat", prompt.chat,
                   "A chat message as role=content (system, user, assistant); repeat for each message")
      ->expected(1)
      ->take_all();
  group->require_option(1);
  app->add_flag("--special", prompt.allow_special_tokens,
                "Text that spells a special token is that token (else it is plain text)");
}

void AddTransfer(CLI::App* app, Raw* raw, bool with_mode) {
  TransferOptions& transfer = raw->options.transfer;
  auto* group = app->add_option_group("Transfer", "What is not given is the server's choice");
  if (with_mode) {
    group
        ->add_option("--mode", transfer.mode,
                     "How the prompt's state comes: codes (fused: one code for several layers; scd; reuse: "
                     "no Patch layer; "
                     "auto: fused where the bundle has it, else scd), the producer's own KV (raw, "
                     "raw_rerope, quantized, quantized_rerope), that with "
                     "some layers computed here (selective), or native prefill (local)")
        ->check(CLI::IsMember(ModeChoices()));
    group
        ->add_option("--policy", transfer.policy,
                     "Without the producer: require an error, prefer native prefill, or off (always native)")
        ->check(CLI::IsMember({"require", "prefer", "off"}));
    group->add_flag("--fresh", transfer.fresh,
                    "Nothing is taken from earlier prompts: the producer prefills everything again");
    group->add_flag("--no-prefix-cache", transfer.no_prefix_cache,
                    "Nothing is taken from the consumer's KV cache or left there; stored codes may be used");
  }
  group->add_option("--transfer-timeout-ms", transfer.timeout_ms, "Time allowed for the transfer, in ms");
  group->add_option("--rank-k", transfer.rank_k, "Numbers sent for one token's K in a Reuse layer");
  group->add_option("--rank-v", transfer.rank_v, "Numbers sent for one token's V in a Reuse layer");
  group->add_option("--rank-h", transfer.rank_h, "Numbers sent for one token in a Patch layer");
  auto* layers = group->add_option("--patch-layers", raw->patch_layers, "The Patch layers: 3,17,18")
                     ->delimiter(',')
                     ->check(CLI::Range(0, 65535));
  group->add_flag("--no-patch", raw->no_patch, "No Patch layer")->excludes(layers);
  group->add_option("--native-head", transfer.native_head,
                    "First positions that the consumer computes itself");
  group->add_option("--native-tail", transfer.native_tail, "Positions before the last token, likewise");
  group->add_option("--codec", transfer.codec, "How numbers are sent: bf16, f32, int8, int4 or entropy")
      ->check(CLI::IsMember({"bf16", "f32", "int8", "int4", "entropy"}));
  group
      ->add_option("--distortion", transfer.distortion,
                   "Codec entropy: one of the distortions that the bundle has tables for")
      ->check(FiniteNumber(0.0, 1e6));
  group
      ->add_option("--recompute-layers", raw->recompute_layers,
                   "Mode selective: the first and the last layer that the consumer computes itself: 10,29")
      ->delimiter(',')
      ->expected(2)
      ->check(CLI::Range(0, 65535));
}

void AddRequest(CLI::App* app, Raw* raw) {
  app->add_option("--request-id", raw->options.request_id, "A name for the logs of both daemons");
  app->add_flag("--quiet,-q", raw->options.quiet, "No statistics");
}

void AddStop(CLI::App* app, Raw* raw) {
  app->add_option("--stop", raw->options.stop,
                  "A text that ends the answer and is not part of it; repeatable")
      ->expected(1)
      ->take_all();
}

void AddGenerate(CLI::App* app, Raw* raw) {
  Options& options = raw->options;
  AddConnection(app, raw, "consumer");
  AddPrompt(app, raw);
  app->add_option("--max-tokens,-n", options.max_tokens, "At most so many tokens; 0: the server's default");
  auto* group = app->add_option_group("Sampling");
  group->add_option("--temperature", options.sampling.temperature, "0: greedy")
      ->check(FiniteFloat(0.0f, 100.0f));
  group->add_option("--top-k", options.sampling.top_k, "Among so many best tokens; 0: all");
  group->add_option("--top-p", options.sampling.top_p, "Among tokens that hold this probability")
      ->check(FiniteFloat(0.0f, 1.0f));
  group->add_option("--min-p", options.sampling.min_p, "At least this share of the best token's probability")
      ->check(FiniteFloat(0.0f, 1.0f));
  group->add_option("--repetition-penalty", options.sampling.repetition_penalty, "Over 1: repeats less")
      ->check(FiniteFloat(std::numeric_limits<float>::min(), std::numeric_limits<float>::max(), "POSITIVE"));
  group->add_option("--seed", options.sampling.seed, "Of the random numbers")->check(WholeNumber());
  AddStop(app, raw);
  app->add_option("--stop-ids", options.stop_token_ids, "Token ids that end the answer: 1,2")->delimiter(',');
  app->add_flag("--ignore-eos", options.ignore_eos, "The model's end tokens do not end the answer");
  app->add_option("--logprobs", options.top_logprobs, "With --json: so many alternatives for each token")
      ->check(CLI::Range(0, 20));
  AddTransfer(app, raw, /*with_mode=*/true);
  AddRequest(app, raw);
}

void AddScore(CLI::App* app, Raw* raw) {
  Options& options = raw->options;
  AddConnection(app, raw, "consumer");
  AddPrompt(app, raw);
  auto* group = app->add_option_group("Continuation", "Exactly one of");
  group->add_option("--continuation,-c", options.continuation, "The text that is scored after the prompt");
  group->add_option("--continuation-ids", options.continuation_ids, "Or its token ids: 1,2,3")
      ->delimiter(',');
  group->require_option(1);
  app->add_flag("--compare", options.compare_with_native,
                "Also KL and total variation against native prefill");
  app->add_flag("--positions", options.positions, "A line for each position");
  AddTransfer(app, raw, /*with_mode=*/true);
  AddRequest(app, raw);
}

void AddCompare(CLI::App* app, Raw* raw) {
  Options& options = raw->options;
  AddConnection(app, raw, "consumer");
  auto* group = app->add_option_group("Prompts", "Exactly one of");
  group->add_option("--prompt,-p", options.prompt.text, "One prompt");
  group->add_option("--prompts-file", options.prompts_file,
                    "A UTF-8 file of prompts between lines of \"---\"");
  group->require_option(1);
  app->add_flag("--special", options.prompt.allow_special_tokens,
                "Text that spells a special token is that token");
  app->add_option("--max-tokens,-n", options.max_tokens, "At most so many tokens; 0: the server's default");
  AddStop(app, raw);
  AddTransfer(app, raw, /*with_mode=*/false);
  AddRequest(app, raw);
}

void AddWorkload(CLI::App* app, WorkloadOptions* workload) {
  auto* group = app->add_option_group("Prompts", "Made-up token ids, unless a file is given");
  auto* file = group->add_option("--prompts-file", workload->prompts_file,
                                 "JSONL: prompt or text, prompt_ids or prefix_ids, or context and question");
  auto* lengths = group->add_option("--prompt-tokens", workload->prompt_tokens, "Lengths, in turns: 128,512")
                      ->delimiter(',')
                      ->check(CLI::Range(1u, 1u << 20))
                      ->excludes(file)
                      ->capture_default_str();
  auto* prefix = group
                     ->add_option("--shared-prefix-tokens", workload->shared_prefix_tokens,
                                  "A prefix of so many tokens that all prompts of a level begin with")
                     ->check(CLI::Range(1u, 1u << 20))
                     ->excludes(file)
                     ->excludes(lengths);
  group->add_option("--questions", workload->questions, "Different ends of such prompts, in turns")
      ->check(CLI::Range(1u, 1u << 20))
      ->needs(prefix)
      ->capture_default_str();
  group->add_option("--question-tokens", workload->question_tokens, "Tokens of each of them")
      ->check(CLI::Range(1u, 1u << 20))
      ->needs(prefix)
      ->capture_default_str();
}

void AddBench(CLI::App* app, Raw* raw) {
  Options& options = raw->options;
  LoadOptions& load = options.load;
  AddAddress(app, raw, "consumer");
  AddWorkload(app, &load.workload);
  auto* group = app->add_option_group("Load", "A measurement for each concurrency, or for each rate");
  auto* concurrency = group
                          ->add_option("--concurrency", load.concurrency,
                                       "Closed loop: requests at a time; several, as 1,2,4,8, are a sweep")
                          ->delimiter(',')
                          ->check(CLI::Range(1u, 4096u))
                          ->capture_default_str();
  group
      ->add_option("--rate", load.rates,
                   "Open loop: requests a second on average, at random times (Poisson); several are a sweep")
      ->delimiter(',')
      ->check(FiniteNumber(1e-3, 1e5))
      ->excludes(concurrency);
  group
      ->add_option("--requests", load.requests,
                   "Requests of each; 32 where neither this nor a duration is given")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
  group->add_option("--duration-s", raw->duration_s, "No request of each starts later, in s")
      ->check(FiniteNumber(0.1, 86400.0));
  group->add_option("--warmup", load.warmup_requests, "Requests before the first, not measured")
      ->capture_default_str();
  group->add_option("--seed", load.seed, "Of made-up prompts and random times")
      ->check(WholeNumber())
      ->capture_default_str();
  group->add_option("--channels", load.channels, "Connections, used in turns")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app->add_option("--max-tokens,-n", options.max_tokens, "Tokens of an answer; 0: the server's default")
      ->capture_default_str();
  app->add_flag("--stop-at-eos", load.stop_at_eos, "The model's end tokens end an answer");
  AddTransfer(app, raw, /*with_mode=*/true);
  app->add_option("--json", load.json_file, "A file for the figures, whole; - is standard output");
  app->add_option("--request-id", options.request_id, "A prefix of the requests' names in the daemons' logs");
  app->add_flag("--quiet,-q", options.quiet, "No progress");
}

void AddInfo(CLI::App* app, Raw* raw) {
  AddConnection(app, raw, "consumer");
  app->add_option("--producer-address", raw->options.producer_address, "Address of the producer, host:port")
      ->capture_default_str();
  app->add_option("--role", raw->options.role, "Which of the two is asked")
      ->check(CLI::IsMember({"both", "consumer", "producer"}))
      ->capture_default_str();
}

void AddHealth(CLI::App* app, Raw* raw) {
  AddConnection(app, raw, "daemon");
  app->add_option("--service", raw->options.service, "The gRPC service asked about; empty: the whole server");
}

void Finish(Raw* raw) {
  Options& options = raw->options;
  options.connect_timeout = absl::Milliseconds(raw->connect_timeout_ms);
  if (raw->deadline_ms > 0) options.deadline = absl::Milliseconds(raw->deadline_ms);
  if (raw->duration_s > 0) options.load.duration = absl::Seconds(raw->duration_s);
  if (options.load.requests == 0 && raw->duration_s == 0) options.load.requests = kDefaultLoadRequests;
  if (raw->recompute_layers.size() == 2) {
    options.transfer.recompute_layers.emplace(raw->recompute_layers[0], raw->recompute_layers[1]);
  }
  if (raw->no_patch) options.transfer.patch_layers.emplace();
  if (!raw->patch_layers.empty()) {
    options.transfer.patch_layers.emplace(raw->patch_layers.begin(), raw->patch_layers.end());
  }
}

}  // namespace

ParsedCommandLine ParseCommandLine(const std::vector<std::string>& arguments) {
  Raw raw;
  CLI::App app("Client of SCD's daemons: answers of the expert model, through the base model's codes.",
               "scd-client");
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("scd-client ") + kScdVersion, "Print the version and exit");
  const struct {
    const char* name;
    const char* help;
    Command command;
    void (*add)(CLI::App*, Raw*);
  } commands[] = {
      {"generate", "Writes the answer to a prompt as it is made", Command::kGenerate, AddGenerate},
      {"score", "Log-probabilities of a given continuation", Command::kScore, AddScore},
      {"compare", "The expert's own answer beside the one through the codes, with bytes and times",
       Command::kCompare, AddCompare},
      {"bench", "A load of requests on a consumer: latencies and throughput", Command::kBench, AddBench},
      {"info", "What both daemons serve", Command::kInfo, AddInfo},
      {"health", "Whether a daemon serves (grpc.health.v1), for containers", Command::kHealth, AddHealth},
  };
  try {
    for (const auto& command : commands) {
      CLI::App* sub = app.add_subcommand(command.name, command.help);
      sub->footer(kExitCodes);
      command.add(sub, &raw);
      sub->callback([&raw, kind = command.command] { raw.options.command = kind; });
      if (!arguments.empty() && arguments.front() == command.name) CheckLists(*sub, arguments);
    }
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const bool help = app.exit(error, out, err) == 0;
    return {std::nullopt, out.str() + err.str(), help ? ExitCode::kOk : ExitCode::kUsage};
  } catch (const CLI::Error& error) {
    return {std::nullopt, std::string(error.what()) + "\n", ExitCode::kUsage};
  }
  Finish(&raw);
  return {std::move(raw.options), "", ExitCode::kOk};
}

}  // namespace scd
