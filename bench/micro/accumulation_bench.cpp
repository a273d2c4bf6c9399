// What each accumulation precision costs: whole optimizer steps of a 10.8 M parameter GPT-2 in
// micro-batches of 1,024 tokens, and the passes over memory alone. Compare within one run, with
// --benchmark_enable_random_interleaving=true --benchmark_repetitions=9.

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <string>

#include "accrue/accum/window.h"
#include "accrue/models/gpt2.h"
#include "accrue/optim/optimizer.h"
#include "accum/gradient_norms.h"
#include "registered.h"

namespace accrue {
namespace {

using accum::Accumulation;
using models::Compute;

constexpr std::int64_t micro_batches = 4, rows = 4;

models::Gpt2Options options_for(Compute compute) {
  return {.layers = 6, .heads = 6, .width = 384, .context = 256, .vocab = 256, .compute = compute};
}

batch::MicroBatch random_micro_batch(const models::Gpt2Options& options) {
  const std::array<std::int64_t, 2> shape{rows, options.context};
  batch::MicroBatch micro;
  micro.inputs = at::randint(0, options.vocab, shape, at::kLong);
  micro.targets = at::randint(0, options.vocab, shape, at::kLong);
  micro.sample_ids = {0, 1, 2, 3};
  micro.tokens = rows * options.context;
  return micro;
}

Loss forward(models::Gpt2& model, const batch::MicroBatch& micro) {
  const ForwardContext context = batch::training_context(micro, 1337, 0);
  return model.losses().front().forward(models::run_segments(model, micro, context), micro, context,
                                        1);
}

void step(benchmark::State& state, Accumulation accumulation, Compute compute) {
  models::Gpt2 model(options_for(compute));
  const batch::MicroBatch micro = random_micro_batch(model.options());
  const auto optimizer = optim::make_adam(
      model.parameters(), optim::default_groups(model.parameters(), 0.1, false), {});
  accum::Window window(std::make_shared<accum::GradientBuffer>(model.parameters(), accumulation));
  std::int64_t index = 0;
  // A contribution may be too large for the first window's units.
  window.set_replay([&](const MicroRef&) {
    Loss loss = forward(model, micro);
    loss.sum.backward();
    return loss;
  });
  const auto run = [&] {
    window.open(index++);
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      window.begin({i, micro.sample_ids, 0});
      const Loss loss = forward(model, micro);
      loss.sum.backward();
      window.commit(loss.sum.item<double>(), loss.weight);
    }
    std::optional<accum::MeanGradient> gradient = window.close();
    gradient->clip(1);
    optimizer->step(std::move(*gradient), 1e-4);
  };
  run();
  for (auto _ : state) run();
  state.SetItemsProcessed(state.iterations() * micro_batches * micro.tokens);
}

/// One micro-batch's forward and backward into the window's sums.
void micro_batch(benchmark::State& state) {
  models::Gpt2 model(options_for(Compute::fp32));
  const batch::MicroBatch micro = random_micro_batch(model.options());
  accum::Window window(std::make_shared<accum::GradientBuffer>(model.parameters()));
  window.open(0);
  for (auto _ : state) {
    window.begin({0, micro.sample_ids, 0});
    const Loss loss = forward(model, micro);
    loss.sum.backward();
    window.commit(loss.sum.item<double>(), loss.weight);
  }
}

enum class NoiseNorm { euclidean, optimizer, sign };

/// What measuring the noise of gradients costs: norms of the sums, once a window, and in another
/// geometry twice.
void noise_norms(benchmark::State& state, NoiseNorm norm) {
  const models::Gpt2 model(options_for(Compute::fp32));
  const accum::GradientBuffer buffer(model.parameters());
  accum::Preconditioner preconditioner;
  for (const auto& entry : buffer.entries()) {
    entry.slot->contribute().into.fill_(1e-3);
    entry.slot->done();
    preconditioner.second_moments.push_back(at::full(entry.parameter.sizes(), 1e-6));
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(accum::squared_norms(buffer));
    for (int i = 0; norm != NoiseNorm::euclidean && i < 2; ++i)
      benchmark::DoNotOptimize(norm == NoiseNorm::sign
                                   ? accum::absolute_sum(buffer)
                                   : accum::preconditioned_square(buffer, preconditioner));
  }
}

/// Contributions of all parameters, with nothing in them.
void fold(benchmark::State& state, Accumulation accumulation) {
  models::Gpt2 model(options_for(Compute::fp32));
  const accum::GradientBuffer buffer(model.parameters(), accumulation);
  std::int64_t elements = 0;
  for (const auto& entry : buffer.entries()) {
    entry.slot->contribute().into.fill_(1e-3);
    entry.slot->done();
    elements += entry.parameter.numel();
  }
  for (auto _ : state)
    for (const auto& entry : buffer.entries()) {
      { const auto to = entry.slot->contribute(); }
      entry.slot->done();
    }
  state.SetItemsProcessed(state.iterations() * elements);
}

}  // namespace

void register_all() {
  const auto add = [](const char* name, auto run, auto... more) {
    benchmark::RegisterBenchmark(name, run, more...)->Unit(benchmark::kMillisecond)->UseRealTime();
  };
  add("micro_batch", micro_batch);
  add("noise/euclidean", noise_norms, NoiseNorm::euclidean);
  add("noise/optimizer", noise_norms, NoiseNorm::optimizer);
  add("noise/sign", noise_norms, NoiseNorm::sign);
  for (const Accumulation accumulation :
       {Accumulation::fp32, Accumulation::fp64, Accumulation::bf16, Accumulation::bf16_kahan,
        Accumulation::bf16_stochastic, Accumulation::fixed}) {
    const std::string name(accum::to_string(accumulation));
    for (const Compute compute : {Compute::fp32, Compute::bf16})
      benchmark::RegisterBenchmark(
          ("step/" + std::string(compute == Compute::fp32 ? "fp32" : "bf16") + "/" + name).c_str(),
          step, accumulation, compute)
          ->Unit(benchmark::kMillisecond)
          ->MinTime(0.1)
          ->UseRealTime();
    if (accumulation != Accumulation::fp32)
      benchmark::RegisterBenchmark(("fold/" + name).c_str(), fold, accumulation)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
  }
}

}  // namespace accrue
