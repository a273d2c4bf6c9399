#include "train/measure/profile.h"

#include <algorithm>
#include <functional>
#include <map>

#include "accrue/core/clock.h"
#include "train/measure/bench_subject.h"
#include "train/measure/benchmark.h"
#include "train/measure/device_times.h"
#include "train/measure/kernel_names.h"
#include "train/measure/kernel_times.h"
#include "train/measure/memory_rate.h"
#include "train/watch/gemm_rate.h"
#include "train/workload/model_factory.h"

namespace accrue::train {
namespace {

double flops_per_second(const KernelTime& time) {
  return time.seconds > 0 ? static_cast<double>(time.flops) / time.seconds : 0;
}

KernelCost cost_of(const KernelTime& time, double micro_batches, double peak_flops,
                   double bandwidth) {
  KernelCost cost{
      .kernel = time.kernel,
      .part = part_of(time.kernel, time.in_backward),
      .in_backward = time.in_backward,
      .calls = time.calls,
      .seconds = time.seconds / micro_batches,
      .bytes = static_cast<std::int64_t>(static_cast<double>(time.bytes) / micro_batches)};
  if (time.seconds == 0) return cost;
  if (time.flops > 0) {
    cost.gflops = flops_per_second(time) / 1e9;
    cost.share_of_ceiling = flops_per_second(time) / peak_flops;
  } else {
    const double share = static_cast<double>(time.bytes) / time.seconds / bandwidth;
    cost.share_of_ceiling = share <= 1 ? share : 0;  // above 1 it reads and writes caches
  }
  return cost;
}

std::vector<Profile::Part> parts_of(const std::vector<KernelCost>& kernels) {
  std::map<std::string, double> seconds;
  for (const KernelCost& cost : kernels) seconds[cost.part] += cost.seconds;
  std::vector<Profile::Part> parts;
  for (const auto& [name, sum] : seconds) parts.push_back({name, sum});
  std::ranges::stable_sort(parts, std::greater<>(), &Profile::Part::seconds);
  return parts;
}

/// On the CPU, the kernels of the calling thread.
std::vector<KernelTime> kernel_times(c10::Device device, const std::function<void()>& work) {
  if (!device.is_cpu()) return device_times(device, work);
  const KernelTimes of_thread;
  work();
  return of_thread.by_time();
}

}  // namespace

Profile profile(const Config& config) {
  BenchSubject subject(config);
  // Both windows use one gradient buffer, as in a run: a new one would have to be zeroed.
  accum::Window window = subject.make_window();
  subject.run_window(window, 0, subject.micro_batch());
  const models::Compute compute = subject.config().precision.compute;
  const c10::Device device = subject.device();
  double peak_flops = best_gemm_rate(compute, device);
  const Stopwatch watch;
  const std::vector<KernelTime> times =
      kernel_times(device, [&] { subject.run_window(window, 1, subject.micro_batch()); });
  const double seconds = watch.seconds();
  peak_flops = std::max(peak_flops, best_gemm_rate(compute, device));
  for (const KernelTime& time : times) peak_flops = std::max(peak_flops, flops_per_second(time));
  const double bandwidth = measure_memory_rate(device);
  Profile result{.micro_batch = subject.micro_batch(),
                 .micro_batches = subject.micro_batches(subject.micro_batch()),
                 .peak_gflops = peak_flops / 1e9,
                 .bandwidth_gbps = bandwidth / 1e9};
  const auto count = static_cast<double>(result.micro_batches);
  result.seconds = result.rest_seconds = seconds / count;
  for (const KernelTime& time : times) {
    result.kernels.push_back(cost_of(time, count, peak_flops, bandwidth));
    result.rest_seconds -= result.kernels.back().seconds;
  }
  result.parts = parts_of(result.kernels);
  return result;
}

}  // namespace accrue::train
