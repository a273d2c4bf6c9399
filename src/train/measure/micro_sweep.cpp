#include "train/measure/micro_sweep.h"

#include <algorithm>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "memory/out_of_memory.h"
#include "train/measure/bench_subject.h"

namespace accrue::train {
namespace {

/// A size and the seconds of its steps, round by round.
struct Measured {
  SweptSize size;
  std::vector<double> seconds;
};

Config with_a_budget(Config config) {
  if (!config.memory.has_budget()) config.memory.budget = "auto";
  return config;
}

std::vector<Measured> sizes_of(const BenchSubject& subject) {
  std::vector<Measured> sizes;
  for (std::int64_t samples = subject.window_samples(); samples >= 1; samples /= 2)
    sizes.push_back(
        {.size = {.micro_batch = samples, .micro_batches = subject.micro_batches(samples)},
         .seconds = {}});
  return sizes;
}

/// Measures one step; notes if it does not fit.
void measure(BenchSubject& subject, std::int64_t window, Measured& at) {
  const memory::PeakScope memory_peak;
  try {
    const BenchSubject::WindowTimes times = subject.accumulated_window(window, at.size.micro_batch);
    at.seconds.push_back(times.accumulation + times.optimizer);
    at.size.peak_bytes = std::max(at.size.peak_bytes, memory_peak.peak().live);
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
    at.size.fits = false;
  }
}

/// Compares each size with the first that fits, round by round.
std::vector<SweptSize> compare(const std::vector<Measured>& measured) {
  const auto reference =
      std::ranges::find_if(measured, [](const Measured& one) { return one.size.fits; });
  if (reference == measured.end())
    throw Error(Error::Kind::refused, "bench", "memory for a single sample", "less",
                "a larger memory.budget, or memory.recompute = \"full\"");
  std::vector<SweptSize> sizes;
  for (const Measured& one : measured) {
    SweptSize& size = sizes.emplace_back(one.size);
    if (!size.fits) continue;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < one.seconds.size(); ++i)
      ratios.push_back(one.seconds[i] / reference->seconds[i]);
    size.seconds = spread_of(one.seconds);
    size.relative_seconds = spread_of(ratios).median;
    size.relative_peak_bytes =
        static_cast<double>(size.peak_bytes) / static_cast<double>(reference->size.peak_bytes);
  }
  return sizes;
}

}  // namespace

MicroSweep sweep_micro(const Config& config, const BenchmarkOptions& options) {
  expect_rounds(options.rounds);
  BenchSubject subject(with_a_budget(config));
  std::vector<Measured> measured = sizes_of(subject);
  std::int64_t window = 0;
  for (Measured& one : measured) {
    measure(subject, window++, one);  // to warm up, and to see what fits
    one.seconds.clear();
    one.size.peak_bytes = 0;
  }
  for (std::int64_t round = 0; round < options.rounds; ++round)
    for (Measured& one : measured)
      if (one.size.fits) measure(subject, window++, one);
  return {.images = subject.images(),
          .batch_samples = subject.window_samples(),
          .sizes = compare(measured)};
}

}  // namespace accrue::train
