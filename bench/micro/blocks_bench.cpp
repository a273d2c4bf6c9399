// Weights in blocks: unpacking beside copying the same numbers, packing, and products by them
// beside products by the same weight in bf16. Compare within one run, with
// --benchmark_enable_random_interleaving=true --benchmark_repetitions=9.

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <string>
#include <utility>

#include "kernels/blocks/block_matrix.h"
#include "kernels/gemm/linear_forward.h"
#include "registered.h"

namespace accrue {
namespace {

using kernels::BlockFormat;

constexpr kernels::MatrixSize matrix{4864, 1792};

at::Tensor values() {
  at::manual_seed(1);
  return at::randn({matrix.rows, matrix.columns}) * 0.02;
}

at::Tensor packed(BlockFormat format) {
  const at::Tensor blocks = at::empty(kernels::sizes_in_blocks(format, matrix), at::kByte);
  kernels::pack_into(blocks, values());
  return blocks;
}

/// Reads blocks and writes bf16: both count.
void unpack(benchmark::State& state, BlockFormat format) {
  const at::Tensor blocks = packed(format);
  for (auto _ : state) benchmark::DoNotOptimize(kernels::unpacked(blocks, at::kBFloat16));
  state.SetBytesProcessed(state.iterations() * (static_cast<std::int64_t>(blocks.nbytes()) +
                                                2 * kernels::element_count(blocks)));
}

void copy(benchmark::State& state) {
  const at::Tensor from = values().to(at::kBFloat16), to = at::empty_like(from);
  for (auto _ : state) to.copy_(from);
  state.SetBytesProcessed(state.iterations() * 2 * static_cast<std::int64_t>(from.nbytes()));
}

void pack(benchmark::State& state, BlockFormat format) {
  const at::Tensor from = values(), blocks = packed(format);
  for (auto _ : state) kernels::pack_into(blocks, from);
  state.SetItemsProcessed(state.iterations() * from.numel());
}

void product(benchmark::State& state, const at::Tensor& weight) {
  const at::Tensor x = at::randn({state.range(0), matrix.columns}).to(at::kBFloat16);
  for (auto _ : state)
    benchmark::DoNotOptimize(kernels::linear_forward(x, weight, matrix.rows, {}));
  state.SetItemsProcessed(state.iterations() * 2 * state.range(0) * matrix.rows * matrix.columns);
}

}  // namespace

void register_all() {
  const auto add = [](const std::string& name, const auto& run) {
    return benchmark::RegisterBenchmark(name.c_str(), run)->UseRealTime();
  };
  const auto add_product = [&](const std::string& name, const at::Tensor& weight) {
    add("product/" + name, [weight](benchmark::State& state) { product(state, weight); })
        ->RangeMultiplier(4)
        ->Range(128, 2048);
  };
  add("copy", copy);
  add_product("bf16", values().to(at::kBFloat16));
  for (const auto& [name, format] : {std::pair<std::string, BlockFormat>{"q8_0", BlockFormat::q8_0},
                                     {"q4_k", BlockFormat::q4_k}}) {
    add("unpack/" + name, [format = format](benchmark::State& state) { unpack(state, format); });
    add("pack/" + name, [format = format](benchmark::State& state) { pack(state, format); });
    add_product(name, packed(format));
  }
}

}  // namespace accrue
