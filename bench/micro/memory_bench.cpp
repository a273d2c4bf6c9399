// What the allocator and its meter cost: one allocation and its release by libtorch's own allocator
// and by accrue's, what the meter alone counts for such a pair, and the meter's share of a
// micro-batch (1,024 tokens of a 10.8 M parameter GPT-2, forward and backward).

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "accrue/accum/window.h"
#include "accrue/core/clock.h"
#include "accrue/core/memory_tag.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/gpt2.h"
#include "memory/counters.h"
#include "registered.h"

namespace accrue {
namespace {

constexpr std::size_t kSmallBytes = 1 << 10, kCachedBytes = 1 << 20;

void pair(benchmark::State& state, c10::Allocator* allocator, std::size_t bytes) {
  for (auto _ : state) benchmark::DoNotOptimize(allocator->allocate(bytes).get());
}

/// Blocks of two sizes, written. Where `tight` the budget has no room for both: each allocation
/// gives back the 4 MiB that it is short of, and as many of its pages are new.
void two_sizes(benchmark::State& state, bool tight) {
  constexpr std::size_t short_bytes = 8 << 20, long_bytes = 16 << 20;
  memory::release_cached();
  if (tight) memory::set_budget(memory::usage().reserved + long_bytes + short_bytes / 2);
  const auto use = [](std::size_t bytes) {
    const c10::DataPtr data = c10::GetCPUAllocator()->allocate(bytes);
    std::memset(data.get(), 1, bytes);
  };
  for (auto _ : state) {
    use(short_bytes);
    use(long_bytes);
  }
  memory::set_budget(std::nullopt);
}

/// What is counted for one allocation and its release of a cached block that is reused.
void count_pair(memory::Counters& counters) {
  const MemoryTag tag = memory_tag();
  benchmark::DoNotOptimize(counters.count_allocation());
  counters.add_live(kCachedBytes, tag);
  counters.remove_live({kCachedBytes, tag});
}

void meter(benchmark::State& state, MemoryTag tag) {
  memory::Counters counters;
  const MemoryTagScope scope(tag);
  for (auto _ : state) count_pair(counters);
}

double meter_seconds_per_pair() {
  constexpr int pairs = 1'000'000;
  memory::Counters counters;
  const MemoryTagScope scope(MemoryTag::parameters);
  const Stopwatch watch;
  for (int i = 0; i < pairs; ++i) count_pair(counters);
  return watch.seconds() / pairs;
}

/// Forward and backward of one micro-batch, with a budget of `room` times its peak of live bytes
/// (0: none); `meter_share` is the meter's part of its time.
void micro_batch(benchmark::State& state, models::Compute compute, double room) {
  constexpr std::int64_t rows = 4;
  models::Gpt2 model(
      {.layers = 6, .heads = 6, .width = 384, .context = 256, .vocab = 256, .compute = compute});
  const models::Gpt2Options& options = model.options();
  batch::MicroBatch micro;
  micro.inputs = at::randint(0, options.vocab, {rows, options.context}, at::kLong);
  micro.targets = at::randint(0, options.vocab, {rows, options.context}, at::kLong);
  micro.sample_ids = {0, 1, 2, 3};
  micro.tokens = rows * options.context;
  const ForwardContext context = batch::training_context(micro, 1337, 0);
  accum::Window window(std::make_shared<accum::GradientBuffer>(model.parameters()));
  const auto run = [&] {
    window.open(0);
    window.begin({0, micro.sample_ids, 0});
    const models::Activations hidden = models::run_segments(model, micro, context);
    model.losses().front().forward(hidden, micro, context, 1).sum.backward();
    window.discard();
  };
  memory::release_cached();
  const memory::PeakScope peak;
  run();
  run();
  const auto live = static_cast<double>(peak.peak().live);
  state.counters["reserved_to_live"] = static_cast<double>(peak.peak().reserved) / live;
  if (room > 0) memory::set_budget(static_cast<std::int64_t>(live * room));
  run();
  const Stopwatch watch;
  const memory::Usage before = memory::usage();
  for (auto _ : state) run();
  const double seconds = watch.seconds();
  const memory::Usage after = memory::usage();
  const auto allocations = static_cast<double>(after.allocations - before.allocations);
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["allocations"] = allocations / iterations;
  state.counters["meter_share"] = allocations * meter_seconds_per_pair() / seconds;
  memory::set_budget(std::nullopt);
}

}  // namespace

void register_all() {
  const auto time_pairs = [](const std::string& name, c10::Allocator* allocator) {
    for (const auto& [size, bytes] : {std::pair("1KiB", kSmallBytes), {"1MiB", kCachedBytes}})
      benchmark::RegisterBenchmark(("pair/" + name + "/" + size).c_str(), pair, allocator, bytes);
  };
  time_pairs("libtorch", c10::GetDefaultCPUAllocator());
  time_pairs("accrue", c10::GetCPUAllocator());
  benchmark::RegisterBenchmark("two_sizes/roomy", two_sizes, false);
  benchmark::RegisterBenchmark("two_sizes/tight", two_sizes, true);
  benchmark::RegisterBenchmark("meter/working", meter, MemoryTag::working);
  benchmark::RegisterBenchmark("meter/tagged", meter, MemoryTag::parameters);
  for (const auto& [name, compute] :
       {std::pair("fp32", models::Compute::fp32), {"bf16", models::Compute::bf16}})
    for (const double room : {0.0, 1.1, 1.05, 1.02})
      benchmark::RegisterBenchmark(
          ("micro_batch/" + std::string(name) + "/room:" + std::to_string(room).substr(0, 4))
              .c_str(),
          micro_batch, compute, room)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
}

}  // namespace accrue
