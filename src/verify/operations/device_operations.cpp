#include "verify/operations/device_operations.h"

#include <torch/csrc/autograd/autograd.h>

#include "accrue/accum/window.h"
#include "accrue/kernels/activation.h"
#include "accrue/kernels/attention.h"
#include "accrue/kernels/convolution.h"
#include "accrue/kernels/cross_entropy.h"
#include "accrue/kernels/dropout.h"
#include "accrue/kernels/embedding.h"
#include "accrue/kernels/linear.h"
#include "accrue/kernels/norm.h"
#include "accrue/kernels/rotary.h"
#include "accrue/optim/optimizer.h"

namespace accrue::proof {
namespace {

constexpr std::int64_t rows = 3, length = 40, width = 128, heads = 4, vocabulary = 211;
/// One for kernels that only process several adjacent elements at a time.
constexpr std::int64_t whole_vocabulary = 212;
constexpr double learning_rate = 0.01;

/// The gradients of `inputs` for the sum of a result's elements times random numbers.
Tensors with_gradients(Values& values, const at::Tensor& result, const Tensors& inputs) {
  const at::Tensor upstream = values.draw(result.sizes(), result.scalar_type());
  Tensors all = torch::autograd::grad({result}, inputs, {upstream});
  all.insert(all.begin(), result.detach());
  return all;
}

ForwardContext context() {
  return {.training = true, .seed = 5, .window = 2, .sample_ids = {11, 12, 40}};
}

Tensors run_linear(const OperationPlace& place) {
  Values values(place);
  const at::Tensor x = values.activation({rows, length, width});
  const at::Tensor weight = values.parameter({3 * width, width}),
                   bias = values.parameter({3 * width});
  kernels::PreparedWeight prepared;
  return with_gradients(values, kernels::linear(x, weight, bias, prepared), {x, weight, bias});
}

/// Two micro-batches into one window's sums: the second one is added in the product.
Tensors run_accumulation(const OperationPlace& place) {
  Values values(place);
  const at::Tensor weight = values.parameter({width, width}), bias = values.parameter({width});
  accum::Window window(
      std::make_shared<accum::GradientBuffer>(NamedParameters{{"weight", weight}, {"bias", bias}}));
  kernels::PreparedWeight prepared;
  window.open(0);
  for (std::int64_t micro = 0; micro < 2; ++micro) {
    const at::Tensor x = values.activation({rows, length, width});
    const at::Tensor upstream = values.draw({rows, length, width}, place.dtype);
    window.begin({.index = micro});
    torch::autograd::backward({kernels::linear(x, weight, bias, prepared)}, {upstream});
    window.commit(0, 1);
  }
  auto gradient = window.close();
  return {gradient->source(0).scaled_copy(gradient->scale(), weight.detach()),
          gradient->source(1).scaled_copy(gradient->scale(), bias.detach()),
          at::scalar_tensor(gradient->norm(), at::kDouble)};
}

/// In fp32 ATen's own.
Tensors run_convolution(const OperationPlace& place) {
  Values values(place);
  const at::Tensor x = values.stream({rows, 8, length, length}),
                   weight = values.parameter({16, 8, 3, 3});
  const at::Tensor y = kernels::is_sixteen_bit(place.dtype)
                           ? kernels::rounded_convolution(x, weight, {2, 1}, place.dtype)
                           : at::conv2d(x, weight, {}, /*stride=*/2, /*padding=*/1);
  return with_gradients(values, y, {x, weight});
}

Tensors run_mlp(const OperationPlace& place) {
  Values values(place);
  const at::Tensor x = values.activation({rows, length, width});
  const at::Tensor w1 = values.parameter({4 * width, width}), b1 = values.parameter({4 * width}),
                   w2 = values.parameter({width, 4 * width}), b2 = values.parameter({width});
  kernels::PreparedWeight first, second;
  return with_gradients(values, kernels::mlp_gelu(x, w1, b1, first, w2, b2, second),
                        {x, w1, b1, w2, b2});
}

Tensors run_gated(const OperationPlace& place) {
  Values values(place);
  const at::Tensor x = values.activation({rows, length, width});
  const at::Tensor gate = values.parameter({2 * width, width}),
                   up = values.parameter({2 * width, width}),
                   down = values.parameter({width, 2 * width});
  kernels::PreparedWeight a, b, c;
  return with_gradients(values, kernels::mlp_gated(x, gate, a, up, b, down, c),
                        {x, gate, up, down});
}

Tensors run_layer_norm(const OperationPlace& place) {
  Values values(place);
  const at::Tensor x = values.stream({rows, length, width}),
                   y = values.activation({rows, length, width});
  const at::Tensor weight = values.parameter({width}), bias = values.parameter({width});
  const auto [sum, normal] = kernels::add_layer_norm(x, y, weight, bias, 1e-5, place.dtype);
  const at::Tensor joined = sum.to(at::kFloat) + normal.to(at::kFloat);
  return with_gradients(values, joined, {x, y, weight, bias});
}

Tensors run_rms_norm(const OperationPlace& place) {
  Values values(place);
  const at::Tensor x = values.stream({rows, length, width}), weight = values.parameter({width});
  return with_gradients(values, kernels::rms_norm(x, weight, {}, place.dtype), {x, weight});
}

Tensors run_rotation(const OperationPlace& place) {
  Values values(place);
  const at::Tensor x = values.activation({rows, length, width});
  const at::Tensor cosines = values.draw({length, width / heads / 2}, place.master),
                   sines = values.draw({length, width / heads / 2}, place.master);
  return with_gradients(values, kernels::rotate(x, heads, cosines, sines), {x});
}

Tensors run_attention(const OperationPlace& place, const kernels::AttentionOptions& options,
                      const ForwardContext& given) {
  Values values(place);
  const at::Tensor qkv = values.activation({rows, length, 3 * width});
  return with_gradients(values, kernels::attention(qkv, heads, options, given), {qkv});
}

Tensors run_grouped_attention(const OperationPlace& place) {
  Values values(place);
  const at::Tensor q = values.activation({rows, length, width}),
                   k = values.activation({rows, length, width / 2}),
                   v = values.activation({rows, length, width / 2});
  return with_gradients(
      values,
      kernels::grouped_attention(
          q, k, v, {.heads = heads, .kv_heads = heads / 2, .window = 16, .soft_cap = 30}, {}),
      {q, k, v});
}

Tensors run_embedding(const OperationPlace& place) {
  Values values(place);
  const at::Tensor tokens = values.parameter({vocabulary, width}),
                   positions = values.parameter({length, width});
  const at::Tensor ids = at::arange(rows * length, at::kLong).remainder(17).view({rows, length});
  return with_gradients(values, kernels::embed_tokens(ids, tokens, positions), {tokens, positions});
}

Tensors run_vocabulary_loss(const OperationPlace& place,
                            const kernels::CrossEntropyOptions& options,
                            std::int64_t classes = vocabulary) {
  Values values(place);
  const at::Tensor hidden = values.activation({rows, length, width}),
                   weight = values.parameter({classes, width});
  at::Tensor targets = at::arange(rows * length, at::kLong).remainder(classes).view({rows, length});
  targets.narrow(1, 0, 2).fill_(kernels::ignored_label);
  kernels::PreparedWeight prepared;
  const Loss loss =
      kernels::linear_cross_entropy(hidden, weight, targets, prepared, {.loss = options});
  Tensors all = torch::autograd::grad({loss.sum}, {hidden, weight});
  all.push_back(loss.sum.detach());
  return all;
}

NamedParameters one_weight(Values& values) {
  return {{"weight", values.parameter({width, width})}};
}

/// Three steps of an optimizer, each after a window of two micro-batches.
Tensors run_steps(const OperationPlace& place, Values& values, const NamedParameters& parameters,
                  optim::Optimizer& optimizer, std::shared_ptr<accum::GradientBuffer> buffer,
                  double largest_norm) {
  const at::Tensor& weight = parameters.front().tensor;
  accum::Window window(std::move(buffer));
  for (std::int64_t step = 0; step < 3; ++step) {
    window.open(step, /*loss_scale=*/1, /*total_weight=*/4.0);
    for (std::int64_t micro = 0; micro < 2; ++micro) {
      window.begin({.index = micro});
      torch::autograd::backward({(weight * values.draw({width, width}, place.master)).sum()});
      window.commit(0, 2);
    }
    auto gradient = window.close();
    if (largest_norm > 0) gradient->clip(largest_norm);
    optimizer.step(std::move(*gradient), learning_rate);
  }
  return {weight.detach()};
}

Tensors run_adam(const OperationPlace& place) {
  Values values(place);
  const NamedParameters parameters = one_weight(values);
  const auto optimizer =
      optim::make_adam(parameters, optim::default_groups(parameters, 0.1, false), {});
  return run_steps(place, values, parameters, *optimizer,
                   std::make_shared<accum::GradientBuffer>(parameters), /*largest_norm=*/1);
}

/// The optimizer takes each micro-batch's gradient when it is computed.
Tensors run_folding(const OperationPlace& place, bool in_adam) {
  Values values(place);
  const NamedParameters parameters = one_weight(values);
  const auto groups = optim::default_groups(parameters, 0.1, false);
  const auto optimizer = in_adam ? optim::make_adama(parameters, groups, {})
                                 : optim::make_folded_sgd(parameters, groups, {.momentum = 0.9});
  const accum::FoldInto into{.target = optimizer->fold_target()};
  return run_steps(place, values, parameters, *optimizer,
                   std::make_shared<accum::GradientBuffer>(parameters, into), /*largest_norm=*/0);
}

}  // namespace

Tensors run_dropout(const OperationPlace& place) {
  Values values(place);
  const at::Tensor x = values.activation({rows, length, width});
  return with_gradients(values, kernels::dropout(x, 0.3, context(), 1), {x});
}

std::vector<Case> device_operations() {
  const auto of_samples = [](bool drops) {
    return [drops](const OperationPlace& place) {
      return run_attention(place, {.dropout = drops ? 0.2 : 0.0}, context());
    };
  };
  const auto packed = [](const OperationPlace& place) {
    ForwardContext two;
    two.spans = {{0, 0, 0, 15}, {1, 0, 15, length}, {2, 1, 0, length}, {3, 2, 0, 9}};
    return run_attention(place, {}, two);
  };
  return {
      {"linear", width * rows, run_linear},
      {"linear with accumulation", 2 * length * rows, run_accumulation},
      {"feed-forward part", 4 * width, run_mlp},
      {"gated feed-forward part", 4 * width, run_gated},
      {"convolution", rows * length * length, run_convolution},
      {"layer norm of a residual sum", length * rows, run_layer_norm},
      {"root mean square norm", length * rows, run_rms_norm},
      {"rotary positions", 4, run_rotation},
      {"attention", length * rows, of_samples(false)},
      {"attention with dropout by sample", length * rows, of_samples(true)},
      {"attention of samples that share rows", length * rows, packed},
      {"grouped attention with a window and a soft cap", length * rows, run_grouped_attention},
      {"embedding", length * rows, run_embedding},
      {"vocabulary loss", length * rows,
       [](const OperationPlace& place) { return run_vocabulary_loss(place, {}); }},
      {"vocabulary loss of whole vectors", length * rows,
       [](const OperationPlace& place) {
         return run_vocabulary_loss(place, {}, whole_vocabulary);
       }},
      {"vocabulary loss, smoothed and capped", length * rows,
       [](const OperationPlace& place) {
         return run_vocabulary_loss(place,
                                    {.label_smoothing = 0.1, .z_loss = 1e-3, .soft_cap = 20});
       }},
      {"dropout by sample", 4, run_dropout},
      {"Adam with clipping", width, run_adam},
      {"AdamA, which gradients are folded into", width,
       [](const OperationPlace& place) { return run_folding(place, true); }},
      {"SGD, which gradients are folded into", width,
       [](const OperationPlace& place) { return run_folding(place, false); }},
  };
}

}  // namespace accrue::proof
