#include "kernels/compiled/fused_rows.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "kernels/compiled/arguments.h"
#include "kernels/compiled/device_program.h"
#include "kernels/gemm/parameter_gradient.h"

namespace accrue::kernels::compiled {
namespace {

constexpr std::int64_t most_per_thread = 32;  ///< elements of a row that a thread keeps
constexpr unsigned block_threads = 128, flat_threads = 256, loss_threads = 512;
/// Blocks that share the rows of a norm's backward: several per multiprocessor of a large GPU.
constexpr std::int64_t backward_blocks = 384;

/// The number of threads that share a row of `columns` elements; 0: not supported by the kernels.
std::int64_t threads_of_row(std::int64_t columns) {
  for (std::int64_t threads = 32; threads <= 1024; threads *= 2)
    if (columns % (threads * vector) == 0 && columns / threads <= most_per_thread) return threads;
  return 0;
}

/// A block has whole rows: at least block_threads threads.
unsigned threads_of_block(std::int64_t threads) {
  return std::max(block_threads, static_cast<unsigned>(threads));
}

}  // namespace

bool normalises(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y) {
  return can_compile_for(x) && x.scalar_type() == at::kFloat && x.numel() > 0 &&
         is_narrow_or_single(plan.out) && threads_of_row(x.size(-1)) > 0 && is_aligned(x) &&
         is_aligned(y) && (!y.defined() || is_narrow_or_single(y.scalar_type()));
}

Normalised normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                     const NormParameters& parameters) {
  const std::int64_t columns = x.size(-1), rows = x.numel() / columns;
  const std::int64_t threads = threads_of_row(columns);
  Normalised result;
  if (y.defined()) result.sum = at::empty(x.sizes(), x.options());
  result.out = at::empty(x.sizes(), x.options().dtype(plan.out));
  result.statistics = at::empty({2, rows}, x.options());
  const at::Tensor scale = parameters.factors();
  const at::Tensor shift = parameters.bias.defined() ? parameters.bias.contiguous() : at::Tensor();
  const void *from = address(x), *added = address(y), *sum = address(result.sum),
             *weight = address(scale), *bias = address(shift), *out = address(result.out),
             *statistics = address(result.statistics);
  const long long count = rows;
  const auto eps = static_cast<float>(plan.eps);
  const unsigned block = threads_of_block(threads);
  launch(x,
         {.kernel = "norm_forward<" + std::to_string(columns) + ", " + std::to_string(threads) +
                    ", " + name_of(shift.defined()) + ", " +
                    name_of(y.defined() ? y.scalar_type() : at::kFloat) + ", " +
                    name_of(y.defined()) + ", " + name_of(plan.out) + ">",
          .blocks = blocks_for(rows, block / threads),
          .threads = block},
         {&from, &added, &sum, &weight, &bias, &out, &statistics, &count, &eps});
  return result;
}

bool makes_norm_gradients(const at::Tensor& grad_out, const at::Tensor& input,
                          at::ScalarType y_dtype) {
  return can_compile_for(input) && input.scalar_type() == at::kFloat && input.numel() > 0 &&
         is_narrow_or_single(grad_out.scalar_type()) && threads_of_row(input.size(-1)) > 0 &&
         is_aligned(input) && is_aligned(grad_out) && is_narrow_or_single(y_dtype);
}

NormGradients norm_gradients(const at::Tensor& grad_out, const at::Tensor& grad_sum,
                             const at::Tensor& input, const at::Tensor& statistics,
                             const NormParameters& parameters, at::ScalarType y_dtype) {
  const std::int64_t columns = input.size(-1), rows = input.numel() / columns;
  const std::int64_t threads = threads_of_row(columns);
  const bool centred = parameters.bias.defined(), separate_y = y_dtype != input.scalar_type();
  const unsigned block = threads_of_block(threads);
  const std::int64_t blocks = std::min(backward_blocks, blocks_for(rows, block / threads));
  NormGradients result;
  result.input = at::empty(input.sizes(), input.options());
  result.y = separate_y ? at::empty(input.sizes(), input.options().dtype(y_dtype)) : result.input;
  const at::Tensor partial = at::empty({2, blocks, columns}, input.options());
  const at::Tensor scale = parameters.factors();
  const void *grads = address(grad_out), *besides = address(grad_sum), *from = address(input),
             *kept = address(statistics), *weight = address(scale), *to = address(result.input),
             *narrow = separate_y ? address(result.y) : nullptr, *sums = address(partial);
  const long long count = rows;
  launch(input,
         {.kernel = "norm_backward<" + std::to_string(columns) + ", " + std::to_string(threads) +
                    ", " + name_of(centred) + ", " + name_of(grad_out.scalar_type()) + ", " +
                    name_of(grad_sum.defined()) + ", " + name_of(separate_y) + ", " +
                    name_of(y_dtype) + ">",
          .blocks = blocks,
          .threads = block},
         {&grads, &besides, &from, &kept, &weight, &to, &narrow, &sums, &count});
  if (parameters.wants_weight) result.weight = row_sum_gradient(parameters.weight, partial[0]);
  if (parameters.wants_bias) result.bias = row_sum_gradient(parameters.bias, partial[1]);
  return result;
}

bool adds(const at::Tensor& x, const at::Tensor& y) {
  return can_compile_for(x) && x.scalar_type() == at::kFloat && is_sixteen_bit(y.scalar_type()) &&
         x.numel() > 0 && x.numel() % vector == 0 && is_aligned(x) && is_aligned(y);
}

at::Tensor sum_of(const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor sum = at::empty(x.sizes(), x.options());
  const void *left = address(x), *right = address(y), *out = address(sum);
  const long long size = x.numel();
  launch(x,
         {.kernel = std::string("add_narrow<") + name_of(y.scalar_type()) + ">",
          .blocks = blocks_for(size, flat_threads * vector),
          .threads = flat_threads},
         {&left, &right, &out, &size});
  return sum;
}

bool takes_cross_entropy(const at::Tensor& logits) {
  return can_compile_for(logits) && logits.scalar_type() == at::kFloat &&
         logits.size(1) % vector == 0 && is_aligned(logits);
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                         const at::Tensor& factors, const at::Tensor& gradient) {
  const at::Tensor losses = at::empty({logits.size(0)}, logits.options());
  const at::ScalarType out = gradient.defined() ? gradient.scalar_type() : at::kFloat;
  const void *from = address(logits), *labels = address(targets), *scales = address(factors),
             *sums = address(losses), *to = address(gradient);
  const auto classes = static_cast<int>(logits.size(1));
  // Two blocks share a multiprocessor, so that one reads while the other one writes.
  constexpr std::int64_t besides = 2048, blocks_at_once = 2;
  const std::int64_t room = most_shared_bytes(logits) / blocks_at_once - besides;
  const auto cached = static_cast<int>(
      std::min<std::int64_t>(classes, room / logits.element_size() / vector * vector));
  launch(logits,
         {.kernel = std::string("cross_entropy<") + name_of(out) + ">",
          .blocks = logits.size(0),
          .threads = loss_threads,
          .shared_bytes = static_cast<unsigned>(cached * logits.element_size())},
         {&from, &labels, &scales, &sums, &to, &classes, &cached});
  return losses;
}

}  // namespace accrue::kernels::compiled
