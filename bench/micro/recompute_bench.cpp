// What recomputation costs and saves: forward and backward of one micro-batch into open slots, and
// the bytes that the pass holds at its peak (counter "peak_MB"). Compare within one run, with
// --benchmark_enable_random_interleaving=true --benchmark_repetitions=9.

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>

#include "accrue/accum/window.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/gpt2.h"
#include "accrue/models/resnet.h"
#include "registered.h"
#include "train/pass/forward_backward.h"

namespace accrue {
namespace {

using models::Compute;
using MakeModel = std::function<std::unique_ptr<models::Trainable>()>;

void pass(benchmark::State& state, const MakeModel& make, const batch::MicroBatch& micro,
          Recompute recompute) {
  const std::unique_ptr<models::Trainable> model = make();
  accum::Window window(std::make_shared<accum::GradientBuffer>(model->parameters()));
  const ForwardContext context = batch::training_context(micro, 1337, 0);
  window.open(0);
  std::int64_t index = 0;
  const auto run = [&] {
    window.begin({.index = index++, .sample_ids = micro.sample_ids});
    const auto result = train::forward_backward(*model, micro, context, {.recompute = recompute});
    window.commit(result.loss_sum, result.weight);
  };
  run();
  const std::int64_t before = memory::usage().live;
  const memory::PeakScope peak;
  run();
  state.counters["peak_MB"] = static_cast<double>(peak.peak().live - before) / 1e6;
  for (auto _ : state) run();
  state.SetItemsProcessed(state.iterations() * micro.tokens);
  window.discard();
}

batch::MicroBatch micro_batch(const at::Tensor& inputs, const at::Tensor& targets) {
  batch::MicroBatch micro{.inputs = inputs, .targets = targets, .tokens = targets.numel()};
  for (std::int64_t i = 0; i < inputs.size(0); ++i) micro.sample_ids.push_back(i);
  return micro;
}

void register_modes(const std::string& name, const MakeModel& make,
                    const batch::MicroBatch& micro) {
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
    benchmark::RegisterBenchmark((name + '/' + std::string(to_string(recompute))).c_str(), pass,
                                 make, micro, recompute)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
}

}  // namespace

void register_all() {
  const at::Tensor ids = at::randint(256, {4, 256}, at::kLong);
  for (const Compute compute : {Compute::fp32, Compute::bf16})
    for (const double dropout : {0.0, 0.1}) {
      const models::Gpt2Options options{.layers = 6,
                                        .heads = 6,
                                        .width = 384,
                                        .context = 256,
                                        .vocab = 256,
                                        .dropout = dropout,
                                        .compute = compute};
      register_modes(
          std::string("gpt2_10.8M/") + (compute == Compute::fp32 ? "fp32" : "bf16") +
              (dropout > 0 ? "/dropout" : ""),
          [options] { return std::make_unique<models::Gpt2>(options); }, micro_batch(ids, ids));
    }
  register_modes(
      "resnet20/fp32",
      [] {
        return std::make_unique<models::ResNet>(
            models::ResNetOptions{.layers = 20, .norm = models::Norm::group});
      },
      micro_batch(at::randn({32, 3, 32, 32}), at::randint(10, {32}, at::kLong)));
}

}  // namespace accrue
