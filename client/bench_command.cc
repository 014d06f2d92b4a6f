// bench: a load on a running consumer, and its latencies.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/bench/load_runner.h"
#include "client/bench/workload.h"
#include "client/command_result.h"
#include "client/commands.h"
#include "client/load_report.h"
#include "client/output_file.h"
#include "client/report.h"
#include "client/requests.h"
#include "common/server/progress.h"

namespace scd {
namespace {

// Prompts of the warm-up are those of a level that is never measured.
constexpr std::uint64_t kWarmupLevel = ~std::uint64_t{0};
constexpr std::size_t kMaxRequestIdBytes = 100;

// Progress where standard error is no terminal.
class LinesOf final : public Log {
 public:
  explicit LinesOf(std::ostream& err) : err_(err) {}
  void Write(LogLevel, std::string_view message) override { err_ << message << std::endl; }

 private:
  std::ostream& err_;
};

// The levels of one run, one after the other.
class Load {
 public:
  Load(const Options& options, const Workload& workload, const Terminal& terminal)
      : options_(options),
        load_(options.load),
        workload_(workload),
        terminal_(terminal),
        log_(terminal.err),
        request_(MakeLoadRequest(options)),
        runner_({options.address, load_.channels, options.deadline}, terminal.stop) {}

  LevelResult WarmUp() {
    return runner_.RunClosed(
        std::min(load_.warmup_requests, load_.rates.empty() ? load_.concurrency.front() : 1u),
        {.requests = load_.warmup_requests}, RequestOf(kWarmupLevel), [](std::int64_t, double) {});
  }

  std::size_t num_levels() const {
    return load_.rates.empty() ? load_.concurrency.size() : load_.rates.size();
  }

  LevelResult Run(std::size_t level) {
    const bool by_count = load_.requests > 0;
    const std::string stage =
        load_.rates.empty() ? LevelName(load_.concurrency[level], 0.0) : LevelName(0, load_.rates[level]);
    const auto total =
        by_count ? static_cast<std::int64_t>(load_.requests) : absl::ToInt64Seconds(load_.duration);
    Progress progress(log_, {.terminal = terminal_.err_is_terminal}, stage, by_count ? "requests" : "s",
                      total);
    const auto on_progress = [&](std::int64_t ended, double seconds) {
      if (options_.quiet) return;
      progress.Set(by_count ? ended : std::min(total, static_cast<std::int64_t>(seconds)));
    };
    const LoadRunner::Limits limits{load_.requests, load_.duration};
    if (!load_.rates.empty()) {
      return runner_.RunOpen(load_.rates[level], load_.seed + level, limits, RequestOf(level), on_progress);
    }
    return runner_.RunClosed(load_.concurrency[level], limits, RequestOf(level), on_progress);
  }

 private:
  LoadRunner::RequestOf RequestOf(std::uint64_t level) const {
    return [this, level](std::uint64_t index) {
      v1::GenerateRequest request = request_;
      *request.mutable_prompt() = workload_.PromptOf(level, index);
      if (!request_.request_id().empty()) {
        request.set_request_id(absl::StrCat(request_.request_id().substr(0, kMaxRequestIdBytes), "-",
                                            level + 1, "-", index + 1));
      }
      return request;
    };
  }

  const Options& options_;
  const LoadOptions& load_;
  const Workload& workload_;
  const Terminal& terminal_;
  LinesOf log_;
  const v1::GenerateRequest request_;
  LoadRunner runner_;
};

// Of a warm-up of which nothing came: the same would come of the load.
std::string WhyItFailed(const LevelResult& warmup) {
  const auto& [code, failures] = *warmup.errors.begin();
  return absl::StrCat("the warm-up failed: ", code, ": ", failures.first_message);
}

}  // namespace

ExitCode RunBench(const Options& options, const Terminal& terminal) {
  std::unique_ptr<OutputFile> json_file;
  if (options.load.json_file && *options.load.json_file != "-") {
    auto opened = OutputFile::Open(*options.load.json_file);
    if (!opened.ok()) {
      return Fail(terminal, ExitCode::kRequestFailed, std::string(opened.status().message()));
    }
    json_file = *std::move(opened);
  }
  ExitCode code = ExitCode::kOk;
  const auto connection = Connect(options, options.address, terminal, &code);
  if (connection == nullptr) return code;
  const auto info = connection->ConsumerInfo(ShortDeadline(options));
  if (!info.ok()) return RequestFailed(terminal, info.status());
  const auto workload =
      Workload::Create(options.load.workload, info->model().vocab_size(), options.load.seed);
  if (!workload.ok()) {
    return Fail(terminal, ExitCode::kRequestFailed, std::string(workload.status().message()));
  }

  const bool text = options.load.json_file != "-";
  Load load(options, *workload, terminal);
  if (text) terminal.out << workload->Describe() << std::endl;
  const LevelResult warmup = load.WarmUp();
  if (warmup.num_failed() > 0 && warmup.num_ok == 0 && !terminal.stop.stop_requested()) {
    return Fail(terminal, ExitCode::kRequestFailed, WhyItFailed(warmup));
  }
  if (text && warmup.num_failed() > 0) terminal.out << "warm-up: " << DescribeLevel(warmup) << std::flush;
  std::vector<LevelResult> levels;
  std::int64_t failed = warmup.num_failed();
  for (std::size_t i = 0; i < load.num_levels() && !terminal.stop.stop_requested(); ++i) {
    levels.push_back(load.Run(i));
    failed += levels.back().num_failed();
    if (text) terminal.out << DescribeLevel(levels.back()) << std::flush;
  }
  if (text) terminal.out << DescribeSweep(levels) << std::flush;

  if (options.load.json_file) {
    nlohmann::json document = LoadJson(options.load);
    document["schema"] = "scd-client-bench-1";
    document["consumer"] = ConsumerJson(*info);
    document["max_tokens"] = options.max_tokens;
    document["mode"] = options.transfer.mode;
    document["policy"] = options.transfer.policy;
    document["interrupted"] = terminal.stop.stop_requested();
    document["warmup"] = {{"requests_ok", warmup.num_ok},
                          {"requests_failed", warmup.num_failed()},
                          {"errors", ErrorsJson(warmup)}};
    document["levels"] = nlohmann::json::array();
    for (const LevelResult& level : levels) document["levels"].push_back(LevelJson(level));
    if (json_file == nullptr) {
      terminal.out << JsonText(document) << std::flush;
    } else if (const absl::Status written = json_file->Write(JsonText(document)); !written.ok()) {
      return Fail(terminal, ExitCode::kRequestFailed, std::string(written.message()));
    }
  }
  if (terminal.stop.stop_requested()) return Fail(terminal, ExitCode::kRequestFailed, "interrupted");
  if (failed > 0) return Fail(terminal, ExitCode::kRequestFailed, absl::StrCat(failed, " requests failed"));
  return ExitCode::kOk;
}

}  // namespace scd
