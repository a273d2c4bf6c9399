// Attention and dropout alone, at the sizes of one layer: 4 samples of 256 tokens with 6 heads, and
// one of 1,024 with 12; heads are 64 wide. With and without dropout, and packed: the same tokens as
// samples of an eighth of the length.

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include "accrue/kernels/attention.h"
#include "accrue/kernels/dropout.h"

namespace accrue::kernels {
namespace {

constexpr std::int64_t width = 64;

struct Layer {
  std::int64_t batch, length, heads;
};
constexpr Layer layers[] = {{4, 256, 6}, {1, 1024, 12}};

ForwardContext context_of(const Layer& layer, std::int64_t samples_per_row) {
  ForwardContext context{.training = true, .seed = 1, .window = 2};
  const std::int64_t length = layer.length / samples_per_row;
  for (std::int64_t row = 0; row < layer.batch; ++row)
    for (std::int64_t i = 0; i < samples_per_row; ++i) {
      const std::int64_t id = row * samples_per_row + i;
      context.sample_ids.push_back(id);
      if (samples_per_row > 1) context.spans.push_back({id, row, i * length, (i + 1) * length});
    }
  return context;
}

void attention_forward_and_backward(benchmark::State& state, at::ScalarType dtype, double dropout,
                                    std::int64_t samples_per_row) {
  const Layer& layer = layers[state.range(0)];
  at::manual_seed(1);
  const std::int64_t channels = layer.heads * width;
  const at::Tensor qkv =
      at::randn({layer.batch, layer.length, 3 * channels}).to(dtype).requires_grad_(true);
  const at::Tensor grad = at::randn({layer.batch, layer.length, channels}).to(dtype);
  const ForwardContext context = context_of(layer, samples_per_row);
  for (auto _ : state) {
    const at::Tensor out = attention(qkv, layer.heads, {.dropout = dropout}, context);
    benchmark::DoNotOptimize(torch::autograd::grad({out}, {qkv}, {grad}));
  }
  state.SetItemsProcessed(state.iterations() * layer.batch * layer.length);
}
BENCHMARK_CAPTURE(attention_forward_and_backward, fp32, at::kFloat, 0, 1)->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(attention_forward_and_backward, fp32_dropout, at::kFloat, 0.1, 1)->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(attention_forward_and_backward, fp32_packed, at::kFloat, 0, 8)->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(attention_forward_and_backward, bf16, at::kBFloat16, 0, 1)->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(attention_forward_and_backward, bf16_dropout, at::kBFloat16, 0.1, 1)
    ->Arg(0)
    ->Arg(1);

void dropout_forward(benchmark::State& state, at::ScalarType dtype) {
  const Layer& layer = layers[0];
  const at::Tensor x = at::randn({layer.batch, layer.length, layer.heads * width}).to(dtype);
  const ForwardContext context = context_of(layer, 1);
  for (auto _ : state) benchmark::DoNotOptimize(dropout(x, 0.1, context, 0));
  state.SetItemsProcessed(state.iterations() * x.numel());
}
BENCHMARK_CAPTURE(dropout_forward, fp32, at::kFloat);
BENCHMARK_CAPTURE(dropout_forward, bf16, at::kBFloat16);

}  // namespace
}  // namespace accrue::kernels
