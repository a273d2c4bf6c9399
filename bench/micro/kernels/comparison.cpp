#include "comparison.h"

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "accrue/core/clock.h"
#include "kernels/gemm/gemm.h"

namespace accrue::bench {
namespace {

constexpr double block_seconds = 0.06;
constexpr std::int64_t most_calls = 1000;
constexpr std::int64_t peak_size = 2048;
// Beyond this no cache holds a part that counts.
constexpr double most_bytes = 256e6, least_bytes = 64e3;

/// Far above rounding, far below another computation.
double usual_tolerance(at::ScalarType dtype) { return dtype == at::kBFloat16 ? 2e-2 : 1e-4; }

double relative_difference(const at::Tensor& ours, const at::Tensor& theirs) {
  const at::Tensor expected = theirs.to(at::kFloat);
  const double size = expected.norm().item<double>();
  return (ours.to(at::kFloat) - expected).norm().item<double>() / size;
}

bool agree(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& theirs,
           double tolerance) {
  const auto alike = [tolerance](const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && relative_difference(a, b) <= tolerance;
  };
  return std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), alike);
}

/// Seconds of a call in a block of them, behind one that warms the caches.
double seconds_of(const Comparison::Side& side) {
  side();
  const Stopwatch first;
  side();
  const double once = first.seconds();
  if (once >= block_seconds) return once;
  const auto calls = std::min(most_calls, static_cast<std::int64_t>(block_seconds / once) + 1);
  const Stopwatch watch;
  for (std::int64_t i = 0; i < calls; ++i) benchmark::DoNotOptimize(side());
  return watch.seconds() / static_cast<double>(calls);
}

/// Bytes per second as STREAM counts them (McCalpin, 1995): two arrays read and one written.
double bandwidth(double bytes) {
  const auto elements =
      static_cast<std::int64_t>(std::clamp(bytes, least_bytes, most_bytes) / (3 * sizeof(float)));
  const at::Tensor a = at::ones({elements}), b = at::ones({elements});
  at::Tensor sum = at::empty({elements});
  const double seconds = seconds_of([&] { return std::vector{at::add_out(sum, a, b)}; });
  return static_cast<double>(3 * sum.nbytes()) / seconds;
}

double gemm_rate(at::ScalarType dtype) {
  const at::Tensor a = random({peak_size, peak_size}, dtype), b = random(a.sizes(), dtype);
  at::Tensor out = at::empty(a.sizes(), a.options());
  const double seconds = seconds_of([&] {
    kernels::gemm_out(out, a, b);
    return std::vector{out};
  });
  return 2.0 * std::pow(peak_size, 3) / seconds;
}

struct Entry {
  Subject subject;
  std::function<Comparison()> make;
  bool aten_first = false;  ///< in the next round
};

struct Seconds {
  double accrue, aten;
};

Seconds time_both(const Comparison& comparison, bool aten_first) {
  Seconds seconds{};
  if (aten_first) seconds.aten = seconds_of(comparison.aten);
  seconds.accrue = seconds_of(comparison.accrue);
  if (!aten_first) seconds.aten = seconds_of(comparison.aten);
  return seconds;
}

void run_round(benchmark::State& state, Entry& entry) {
  at::manual_seed(1);
  const Comparison comparison = entry.make();
  const double tolerance = comparison.tolerance.value_or(usual_tolerance(entry.subject.dtype));
  if (!agree(comparison.accrue(), comparison.aten(), tolerance)) {
    state.SkipWithError("accrue and ATen disagree");
    return;
  }
  for (auto _ : state) {
    const Seconds seconds =
        time_both(comparison, std::exchange(entry.aten_first, !entry.aten_first));
    const double bytes_per_second = bandwidth(comparison.bytes);
    const double flops_per_second = gemm_rate(comparison.products);
    const double roof_seconds =
        std::max(comparison.bytes / bytes_per_second, comparison.flops / flops_per_second);
    state.SetIterationTime(seconds.accrue);
    state.counters["aten_seconds"] = seconds.aten;
    state.counters["faster_by"] = seconds.aten / seconds.accrue;
    state.counters["gflops"] = comparison.flops / seconds.accrue / 1e9;
    state.counters["gbps"] = comparison.bytes / seconds.accrue / 1e9;
    state.counters["gemm_gflops"] = flops_per_second / 1e9;
    state.counters["bandwidth_gbps"] = bytes_per_second / 1e9;
    state.counters["share_of_roof"] = roof_seconds / seconds.accrue;
  }
}

}  // namespace

void add_comparison(Subject subject, std::function<Comparison()> make) {
  const std::string name = "against_aten/" + subject.kernel + '/' + subject.workload.name + '/' +
                           (subject.dtype == at::kBFloat16 ? "bf16" : "fp32");
  const auto entry = std::make_shared<Entry>(Entry{std::move(subject), std::move(make)});
  benchmark::RegisterBenchmark(name.c_str(),
                               [entry](benchmark::State& state) { run_round(state, *entry); })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

at::Tensor random(at::IntArrayRef sizes, at::ScalarType dtype, double deviation) {
  return at::randn(sizes).mul_(deviation).to(dtype);
}

double bytes_of(at::TensorList tensors) {
  double bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

}  // namespace accrue::bench
