// Each kernel beside ATen's and the roofline: kernels/, reported by kernels.py.
// Attention of one layer, 4 samples of 256 tokens with 6 heads, and one of 1,024 with 12; heads are
// 64 wide. With and without dropout, and packed: the same tokens as samples of an eighth of the
// length.
// The head and loss of GPT-2 124 M, forward and backward of 4 x 1,024 tokens with the weight's
// gradient added to its slot: by chunks of rows (the argument; 0: as many as the library takes),
// with whole logits on the same kernels (4,096 rows), and with ATen's cross-entropy behind the same
// linear layer. To compare them:
//   kernels_bench --benchmark_filter=head --benchmark_enable_random_interleaving=true
//                 --benchmark_repetitions=5 --benchmark_report_aggregates_only=true

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/version.h>

#include <memory>
#include <string>

#include "accrue/kernels/attention.h"
#include "accrue/kernels/cross_entropy.h"
#include "accrue/kernels/grad_slot.h"
#include "accrue/kernels/linear.h"
#include "kernels/comparison.h"
#include "kernels/gemm/gemm.h"
#include "registered.h"

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

/// The head of GPT-2 124 M in front of its loss, its weight's gradient in a slot.
struct Head {
  explicit Head(at::ScalarType dtype) {
    at::manual_seed(1);
    hidden = at::randn({tokens, channels}).to(dtype).requires_grad_(true);
    weight = (at::randn({vocabulary, channels}) * 0.02).requires_grad_(true);
    targets = at::randint(vocabulary, {tokens}, at::kLong);
    slot = std::make_shared<GradSlot>(at::zeros({vocabulary, channels}));
    slot->open = true;
    slot->fresh = false;  // of the second micro-batch on
    attach(weight, slot);
  }

  static constexpr std::int64_t tokens = 4096, channels = 768, vocabulary = 50'304;
  at::Tensor hidden, weight, targets;
  std::shared_ptr<GradSlot> slot;
  PreparedWeight copy;
};

void head_by_chunks(benchmark::State& state, at::ScalarType dtype, double label_smoothing) {
  Head head(dtype);
  const LinearCrossEntropyOptions options{.loss = {.label_smoothing = label_smoothing},
                                          .chunk_rows = state.range(0),
                                          .overwrite_hidden = true};
  const at::Tensor values = head.hidden.detach().clone();
  for (auto _ : state) {
    head.hidden.detach().copy_(values);
    const Loss loss =
        linear_cross_entropy(head.hidden, head.weight, head.targets, head.copy, options);
    torch::autograd::backward({loss.sum}, {});
    head.hidden.mutable_grad().reset();
  }
  state.SetItemsProcessed(state.iterations() * Head::tokens);
}
BENCHMARK_CAPTURE(head_by_chunks, fp32, at::kFloat, 0)
    ->ArgName("rows")
    ->Arg(0)
    ->Arg(Head::tokens)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(head_by_chunks, bf16, at::kBFloat16, 0)
    ->ArgName("rows")
    ->Arg(0)
    ->Arg(Head::tokens)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(head_by_chunks, fp32_smoothed, at::kFloat, 0.1)
    ->ArgName("rows")
    ->Arg(0)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void head_by_aten(benchmark::State& state, at::ScalarType dtype) {
  Head head(dtype);
  for (auto _ : state) {
    const Loss loss = cross_entropy(linear(head.hidden, head.weight, {}, head.copy), head.targets);
    torch::autograd::backward({loss.sum}, {});
    head.hidden.mutable_grad().reset();
  }
  state.SetItemsProcessed(state.iterations() * Head::tokens);
}
BENCHMARK_CAPTURE(head_by_aten, fp32, at::kFloat)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(head_by_aten, bf16, at::kBFloat16)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace accrue::kernels

void accrue::register_all() {
  benchmark::AddCustomContext("gemm", kernels::gemm_backend());
  benchmark::AddCustomContext("torch", TORCH_VERSION);
  benchmark::AddCustomContext("threads", std::to_string(at::get_num_threads()));
  bench::add_linear();
  bench::add_elementwise();
  bench::add_norm();
  bench::add_attention();
  bench::add_head();
  bench::add_embedding();
  bench::add_optimizer();
}
