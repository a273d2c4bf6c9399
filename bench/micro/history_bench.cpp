// Reading metrics.jsonl back: all numbers of a step that a run can have, in 20,000 steps. Beside it
// the parser that the other files go through, which here parses the same lines and keeps nothing.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "observe/history/metrics_file.h"

namespace accrue::observe {
namespace {

namespace fs = std::filesystem;

constexpr int steps = 20'000;

std::string line_of(int step, std::mt19937_64& random) {
  std::uniform_real_distribution<double> fraction(0, 1);
  nlohmann::ordered_json line{{"step", step}};
  for (const char* name :
       {"epoch", "time", "elapsed", "loss", "grad_norm", "lr", "seconds", "tokens_per_second",
        "updates_per_hour", "accumulation_seconds", "optimizer_seconds", "reduce_seconds",
        "reduce_exposed_seconds", "epoch_seconds", "joules", "share_of_ceiling", "data_seconds",
        "checkpoint_seconds"})
    line[name] = 1000 * fraction(random);
  for (const char* name :
       {"samples", "tokens", "weight", "micro_batch", "micro_batches", "batch_tokens", "wire_bytes",
        "peak_bytes", "budget_bytes", "micro_batch_peak_bytes", "quarantined", "retries", "world"})
    line[name] = random() >> 32U;
  for (const char* name : {"parameters", "gradients", "optimizer", "activations", "reserved"})
    line["memory"][name] = random() >> 32U;
  line["micro_batch_seconds"] = {{"median", fraction(random)}, {"max", fraction(random)}};
  return line.dump() + "\n";
}

/// A file of metrics, and its lines.
class LongRun {
 public:
  LongRun() {
    std::string name = (fs::temp_directory_path() / "accrue_bench_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
    std::mt19937_64 random(1);
    std::ofstream out(file());
    for (int step = 1; step <= steps; ++step) out << lines_.emplace_back(line_of(step, random));
  }
  ~LongRun() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  LongRun(const LongRun&) = delete;
  LongRun& operator=(const LongRun&) = delete;

  fs::path file() const { return folder_ / "metrics.jsonl"; }
  const std::vector<std::string>& lines() const { return lines_; }

  /// Tells the rate of a benchmark that reads all of it each time.
  void count(benchmark::State& state) const {
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(fs::file_size(file())));
    state.counters["bytes_a_step"] = static_cast<double>(fs::file_size(file())) / steps;
  }

 private:
  fs::path folder_;
  std::vector<std::string> lines_;
};

const LongRun& long_run() {
  static const LongRun run;
  return run;
}

void read_back(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(read_metrics(long_run().file()).table.steps.size());
  long_run().count(state);
}
BENCHMARK(read_back)->Unit(benchmark::kMillisecond);

/// Takes what a line has, and keeps nothing.
struct Forgetful : nlohmann::json_sax<nlohmann::json> {
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
};

void nlohmann_sax(benchmark::State& state) {
  Forgetful handler;
  for (auto _ : state)
    for (const std::string& line : long_run().lines())
      benchmark::DoNotOptimize(nlohmann::json::sax_parse(line, &handler));
  long_run().count(state);
}
BENCHMARK(nlohmann_sax)->Unit(benchmark::kMillisecond);

void nlohmann_tree(benchmark::State& state) {
  for (auto _ : state)
    for (const std::string& line : long_run().lines())
      benchmark::DoNotOptimize(nlohmann::json::parse(line).size());
  long_run().count(state);
}
BENCHMARK(nlohmann_tree)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace accrue::observe
