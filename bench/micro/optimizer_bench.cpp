// What an optimizer's step costs by what its state is kept in, and what folding a micro-batch's
// gradients into it costs, over the 10.8 M parameters of a GPT-2. Compare within one run, with
// --benchmark_enable_random_interleaving=true --benchmark_repetitions=9.

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "accrue/accum/window.h"
#include "accrue/models/gpt2.h"
#include "accrue/optim/optimizer.h"
#include "registered.h"

namespace accrue {
namespace {

using optim::StatePrecision;

models::Gpt2 make_model() {
  return models::Gpt2({.layers = 6, .heads = 6, .width = 384, .context = 256, .vocab = 256});
}

std::vector<optim::ParameterGroup> groups_of(const NamedParameters& parameters) {
  return optim::default_groups(parameters, 0.1, false);
}

/// Contributions as large as gradients are, in the memory that kernels write to.
void contribute(const accum::GradientBuffer& buffer) {
  for (const auto& entry : buffer.entries()) {
    { const auto to = entry.slot->contribute(); }
    entry.slot->done();
  }
}

void fill(const accum::GradientBuffer& buffer) {
  const at::NoGradGuard no_grad;
  for (const auto& entry : buffer.entries()) {
    const kernels::Contribution to = entry.slot->contribute();
    to.into.copy_(at::randn(to.into.sizes(), to.into.options()).mul_(1e-3));
    entry.slot->done();
  }
}

void adamw_step(benchmark::State& state, StatePrecision precision) {
  const models::Gpt2 model = make_model();
  const NamedParameters parameters = model.parameters();
  const auto optimizer =
      optim::make_adam(parameters, groups_of(parameters), {}, {.precision = precision});
  const auto buffer = std::make_shared<accum::GradientBuffer>(parameters);
  accum::Window window(buffer);
  std::int64_t index = 0;
  const auto mean = [&] {
    window.open(index++);
    window.begin({});
    fill(*buffer);
    window.commit(0, 1);
    return std::move(window.close(/*check_finite=*/false)).value();
  };
  for (auto _ : state) {
    state.PauseTiming();
    accum::MeanGradient gradient = mean();
    state.ResumeTiming();
    optimizer->step(std::move(gradient), 1e-4);
  }
  state.SetItemsProcessed(state.iterations() * models::parameter_count(model));
}

/// One micro-batch's passes: the check of its gradients, and the fold.
void adama_fold(benchmark::State& state, StatePrecision precision) {
  const models::Gpt2 model = make_model();
  const NamedParameters parameters = model.parameters();
  const auto optimizer =
      optim::make_adama(parameters, groups_of(parameters), {}, {.precision = precision});
  const auto buffer = std::make_shared<accum::GradientBuffer>(
      parameters, accum::FoldInto{optimizer->fold_target(), model.shared_parameters()});
  accum::Window window(buffer);
  window.open(0, 1, 1e9);
  window.begin({});
  fill(*buffer);
  window.commit(0, 1);
  for (auto _ : state) {
    window.begin({});
    contribute(*buffer);
    window.commit(0, 1);
  }
  state.SetItemsProcessed(state.iterations() * models::parameter_count(model));
}

}  // namespace

void register_all() {
  const auto add = [](const std::string& name, StatePrecision precision, auto run) {
    benchmark::RegisterBenchmark((name + "/" + std::string(to_string(precision))).c_str(), run,
                                 precision)
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.1)
        ->UseRealTime();
  };
  for (const StatePrecision precision :
       {StatePrecision::fp32, StatePrecision::bf16, StatePrecision::int8})
    add("adamw_step", precision, adamw_step);
  for (const StatePrecision precision : {StatePrecision::fp32, StatePrecision::bf16})
    add("adama_fold", precision, adama_fold);
}

}  // namespace accrue
