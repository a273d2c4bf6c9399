#include "train/measure/benchmark.h"

#include <algorithm>

#include "accrue/memory/caching_allocator.h"
#include "train/measure/bench_subject.h"
#include "train/measure/gemm_shapes.h"
#include "train/workload/model_factory.h"

namespace accrue::train {

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.front(), median, values.back()};
}

BenchmarkResult benchmark(const Config& config, const BenchmarkOptions& options) {
  expect_rounds(options.rounds);
  BenchSubject bench(config);
  BenchmarkResult result;
  result.micro_batch = bench.micro_batch();
  result.recompute = bench.recompute();
  result.micro_batches = bench.micro_batches(bench.micro_batch());
  result.micro_batch_tokens = bench.window_tokens() / result.micro_batches;
  result.images = bench.images();
  result.parameters = models::parameter_count(bench.model());

  const auto count = static_cast<double>(result.micro_batches);
  const auto tokens = static_cast<double>(bench.window_tokens());
  const models::Compute compute = bench.config().precision.compute;
  const std::vector<GemmShape> shapes =
      gemm_shapes(bench.config().model, result.micro_batch_tokens);
  std::vector<double> speed, bare, accumulated, overhead, optimizer, ceiling, peak;
  bench.bare_window();
  bench.warm_up();
  result.peak_resident_bytes = memory::peak_resident_bytes();
  const BenchSubject::SystemUse use = bench.system_use_when_warm();
  result.system_allocations = static_cast<double>(use.allocations) / count;
  result.minor_page_faults = static_cast<double>(use.page_faults) / count;
  for (std::int64_t round = 1; round <= options.rounds; ++round) {
    const memory::PeakScope memory_peak;
    const BenchSubject::WindowTimes times = bench.accumulated_window(round, bench.micro_batch());
    result.loss = times.loss;
    result.peak_bytes = std::max(result.peak_bytes, memory_peak.peak().live);
    accumulated.push_back(times.accumulation / count);
    optimizer.push_back(times.optimizer);
    speed.push_back(tokens / (times.accumulation + times.optimizer));
    bare.push_back(bench.bare_window() / count);
    overhead.push_back(accumulated.back() / bare.back() - 1);
    ceiling.push_back(measure_gemm_rate(shapes, compute, bench.device()));
    peak.push_back(
        measure_gemm_rate({peak_shape_of(bench.device(), compute)}, compute, bench.device()));
  }
  result.tokens_per_second = spread_of(speed);
  result.bare_seconds_per_micro_batch = spread_of(bare);
  result.seconds_per_micro_batch = spread_of(accumulated);
  result.accumulation_overhead = spread_of(overhead).median;
  result.optimizer_seconds = spread_of(optimizer);
  result.ceiling_gflops = spread_of(ceiling).max / 1e9;
  result.peak_gflops = spread_of(peak).max / 1e9;
  if (const std::int64_t flops = bench.model().flops_per_sample(); flops > 0) {
    result.model_gflops = static_cast<double>(flops) * static_cast<double>(bench.window_samples()) /
                          (result.seconds_per_micro_batch.median * count) / 1e9;
    result.ceiling_gflops = std::max(result.ceiling_gflops, *result.model_gflops);
    result.share_of_ceiling = *result.model_gflops / result.ceiling_gflops;
  }
  return result;
}

}  // namespace accrue::train
