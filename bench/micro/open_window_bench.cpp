// What it costs to see whether others wrote to an open window's parameters and sums: the looks of
// one micro-batch, as a part of its time, with the caches as forward and backward left them.

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "accrue/accum/accumulator.h"
#include "accrue/core/clock.h"
#include "accrue/models/gpt2.h"
#include "accum/content_watch.h"
#include "core/median.h"
#include "registered.h"

namespace accrue {
namespace {

/// Layers of tanh, in libtorch's operators.
struct Layers {
  explicit Layers(const std::vector<std::int64_t>& widths) {
    for (std::size_t i = 1; i < widths.size(); ++i) {
      parameters.push_back({"weight" + std::to_string(i),
                            (at::randn({widths[i], widths[i - 1]}) * 0.1).requires_grad_()});
      parameters.push_back({"bias" + std::to_string(i), at::zeros({widths[i]}).requires_grad_()});
    }
  }
  Loss loss(at::Tensor x) const {
    for (std::size_t i = 0; i < parameters.size(); i += 2)
      x = at::tanh(at::linear(x, parameters[i].tensor, parameters[i + 1].tensor));
    return {x.square().sum(), static_cast<double>(x.size(0))};
  }
  NamedParameters parameters;
};

/// Micro-batches of an Accumulator; `look_ns` and `share` are medians, of the looks that each has
/// once more.
template <class NextLoss>
void run(benchmark::State& state, const NamedParameters& parameters, const NextLoss& next_loss) {
  constexpr int micro_batches_of_window = 4;
  Accumulator accumulator(parameters);
  const accum::GradientBuffer& buffer = *accumulator.current_window().buffer();
  accum::ContentWatch watch(buffer);
  std::vector<double> wholes, looks;
  int count = 0;
  for (auto _ : state) {
    const Stopwatch whole;
    if (count % micro_batches_of_window == 0) {
      accumulator.discard();
      watch.begin_window();
    }
    accumulator.backward(next_loss());
    wholes.push_back(whole.seconds());
    watch.see_sums();
    const Stopwatch look;
    bool changed = false;
    for (std::size_t i = 0; i < buffer.entries().size(); ++i)
      changed = !buffer.conversion(i).empty() || watch.parameter_changed(i) ||
                watch.sum_changed(i) || changed;
    watch.see_sums();
    looks.push_back(look.seconds());
    if (changed) state.SkipWithError("something wrote to the window");
    ++count;
  }
  const double look = median_of(looks);
  state.counters["look_ns"] = look * 1e9;
  state.counters["share"] = look / median_of(wholes);
}

void layers(benchmark::State& state, const std::vector<std::int64_t>& widths, std::int64_t rows) {
  const Layers model(widths);
  const at::Tensor x = at::randn({rows, widths.front()});
  run(state, model.parameters, [&] { return model.loss(x); });
}

void gpt2(benchmark::State& state, std::int64_t width, std::int64_t vocab) {
  models::Gpt2 model(
      {.layers = 6, .heads = width / 64, .width = width, .context = 256, .vocab = vocab});
  batch::MicroBatch micro;
  micro.inputs = at::randint(0, vocab, {4, 256}, at::kLong);
  micro.targets = at::randint(0, vocab, {4, 256}, at::kLong);
  micro.sample_ids = {0, 1, 2, 3};
  run(state, model.parameters(), [&] {
    const ForwardContext context = batch::training_context(micro, 1337, 0);
    return model.losses().front().forward(models::run_segments(model, micro, context), micro,
                                          context, 1);
  });
}

}  // namespace

void register_all() {
  const auto add = [](const char* name, auto&& measured) {
    benchmark::RegisterBenchmark(name, measured)->Unit(benchmark::kMillisecond);
  };
  add("layers 4-8-1, 2 rows", [](auto& state) { layers(state, {4, 8, 1}, 2); });
  add("layers 64-256-256-1, 32 rows", [](auto& state) { layers(state, {64, 256, 256, 1}, 32); });
  add("layers 1024-4096-1024, 128 rows", [](auto& state) {
    layers(state, {1024, 4096, 1024}, 128);
  });
  add("gpt2 10.8 M, 1024 tokens", [](auto& state) { gpt2(state, 384, 256); });
  add("gpt2 62 M, 1024 tokens", [](auto& state) { gpt2(state, 512, 50'304); });
}

}  // namespace accrue
