#include "verify/operations/device_conformance.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "accrue/accum/window.h"
#include "accrue/core/error.h"
#include "accrue/device/device.h"
#include "accrue/kernels/activation.h"
#include "accrue/kernels/attention.h"
#include "accrue/kernels/convolution.h"
#include "accrue/kernels/cross_entropy.h"
#include "accrue/kernels/dropout.h"
#include "accrue/kernels/embedding.h"
#include "accrue/kernels/kernel_choice.h"
#include "accrue/kernels/linear.h"
#include "accrue/kernels/norm.h"
#include "accrue/kernels/rotary.h"
#include "accrue/optim/optimizer.h"
#include "kernels/aten_element.h"
#include "optim/kept_state.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t rows = 3, length = 40, width = 128, heads = 4, vocabulary = 211;
constexpr double learning_rate = 0.01;

/// Where and in which precision an operation is run.
struct Place {
  c10::Device device;
  at::ScalarType dtype;   ///< of activations
  at::ScalarType master;  ///< of parameters and the residual stream
};

/// The same values at every place: drawn in fp64, rounded to bf16, which all have.
class Values {
 public:
  explicit Values(const Place& place) : place_(place) {}

  at::Tensor draw(at::IntArrayRef sizes, at::ScalarType dtype, double scale = 1) {
    const at::Tensor values =
        at::randn(sizes, generator_, at::TensorOptions(at::kDouble)).mul_(scale).to(at::kBFloat16);
    return values.to(dtype).to(place_.device);
  }
  at::Tensor activation(at::IntArrayRef sizes, double scale = 1) {
    return draw(sizes, place_.dtype, scale).requires_grad_();
  }
  at::Tensor stream(at::IntArrayRef sizes) { return draw(sizes, place_.master).requires_grad_(); }
  at::Tensor parameter(at::IntArrayRef sizes, double scale = 0.1) {
    return draw(sizes, place_.master, scale).requires_grad_();
  }

 private:
  Place place_;
  at::Generator generator_ = at::detail::createCPUGenerator(/*seed_val=*/7);
};

/// The gradients of `inputs` of the sum of a result's elements times drawn numbers.
Tensors with_gradients(Values& values, const at::Tensor& result, const Tensors& inputs) {
  const at::Tensor upstream = values.draw(result.sizes(), result.scalar_type());
  Tensors all = torch::autograd::grad({result}, inputs, {upstream});
  all.insert(all.begin(), result.detach());
  return all;
}

ForwardContext context() {
  return {.training = true, .seed = 5, .window = 2, .sample_ids = {11, 12, 40}};
}

/// Something to run at two places.
struct Case {
  const char* name;
  std::int64_t terms;  ///< of the longest sums in it
  std::function<Tensors(const Place& place)> run;
};

Tensors run_linear(const Place& place) {
  Values values(place);
  const at::Tensor x = values.activation({rows, length, width});
  const at::Tensor weight = values.parameter({3 * width, width}),
                   bias = values.parameter({3 * width});
  kernels::PreparedWeight prepared;
  return with_gradients(values, kernels::linear(x, weight, bias, prepared), {x, weight, bias});
}

/// Two micro-batches into one window's sums: what the second one adds in the product.
Tensors run_accumulation(const Place& place) {
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
Tensors run_convolution(const Place& place) {
  Values values(place);
  const at::Tensor x = values.stream({rows, 8, length, length}),
                   weight = values.parameter({16, 8, 3, 3});
  const at::Tensor y = kernels::is_sixteen_bit(place.dtype)
                           ? kernels::rounded_convolution(x, weight, {2, 1}, place.dtype)
                           : at::conv2d(x, weight, {}, /*stride=*/2, /*padding=*/1);
  return with_gradients(values, y, {x, weight});
}

Tensors run_mlp(const Place& place) {
  Values values(place);
  const at::Tensor x = values.activation({rows, length, width});
  const at::Tensor w1 = values.parameter({4 * width, width}), b1 = values.parameter({4 * width}),
                   w2 = values.parameter({width, 4 * width}), b2 = values.parameter({width});
  kernels::PreparedWeight first, second;
  return with_gradients(values, kernels::mlp_gelu(x, w1, b1, first, w2, b2, second),
                        {x, w1, b1, w2, b2});
}

Tensors run_gated(const Place& place) {
  Values values(place);
  const at::Tensor x = values.activation({rows, length, width});
  const at::Tensor gate = values.parameter({2 * width, width}),
                   up = values.parameter({2 * width, width}),
                   down = values.parameter({width, 2 * width});
  kernels::PreparedWeight a, b, c;
  return with_gradients(values, kernels::mlp_gated(x, gate, a, up, b, down, c),
                        {x, gate, up, down});
}

Tensors run_layer_norm(const Place& place) {
  Values values(place);
  const at::Tensor x = values.stream({rows, length, width}),
                   y = values.activation({rows, length, width});
  const at::Tensor weight = values.parameter({width}), bias = values.parameter({width});
  const auto [sum, normal] = kernels::add_layer_norm(x, y, weight, bias, 1e-5, place.dtype);
  const at::Tensor joined = sum.to(at::kFloat) + normal.to(at::kFloat);
  return with_gradients(values, joined, {x, y, weight, bias});
}

Tensors run_rms_norm(const Place& place) {
  Values values(place);
  const at::Tensor x = values.stream({rows, length, width}), weight = values.parameter({width});
  return with_gradients(values, kernels::rms_norm(x, weight, {}, place.dtype), {x, weight});
}

Tensors run_rotation(const Place& place) {
  Values values(place);
  const at::Tensor x = values.activation({rows, length, width});
  const at::Tensor cosines = values.draw({length, width / heads / 2}, place.master),
                   sines = values.draw({length, width / heads / 2}, place.master);
  return with_gradients(values, kernels::rotate(x, heads, cosines, sines), {x});
}

Tensors run_attention(const Place& place, const kernels::AttentionOptions& options,
                      const ForwardContext& given) {
  Values values(place);
  const at::Tensor qkv = values.activation({rows, length, 3 * width});
  return with_gradients(values, kernels::attention(qkv, heads, options, given), {qkv});
}

Tensors run_grouped_attention(const Place& place) {
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

Tensors run_embedding(const Place& place) {
  Values values(place);
  const at::Tensor tokens = values.parameter({vocabulary, width}),
                   positions = values.parameter({length, width});
  const at::Tensor ids = at::arange(rows * length, at::kLong).remainder(17).view({rows, length});
  return with_gradients(values, kernels::embed_tokens(ids, tokens, positions), {tokens, positions});
}

Tensors run_vocabulary_loss(const Place& place, const kernels::CrossEntropyOptions& options) {
  Values values(place);
  const at::Tensor hidden = values.activation({rows, length, width}),
                   weight = values.parameter({vocabulary, width});
  at::Tensor targets =
      at::arange(rows * length, at::kLong).remainder(vocabulary).view({rows, length});
  targets.narrow(1, 0, 2).fill_(kernels::ignored_label);
  kernels::PreparedWeight prepared;
  const Loss loss =
      kernels::linear_cross_entropy(hidden, weight, targets, prepared, {.loss = options});
  Tensors all = torch::autograd::grad({loss.sum}, {hidden, weight});
  all.push_back(loss.sum.detach());
  return all;
}

Tensors run_dropout(const Place& place) {
  Values values(place);
  const at::Tensor x = values.activation({rows, length, width});
  return with_gradients(values, kernels::dropout(x, 0.3, context(), 1), {x});
}

Tensors run_adam(const Place& place) {
  Values values(place);
  const at::Tensor weight = values.parameter({width, width});
  const NamedParameters parameters{{"weight", weight}};
  const auto optimizer =
      optim::make_adam(parameters, optim::default_groups(parameters, 0.1, false), {});
  accum::Window window(std::make_shared<accum::GradientBuffer>(parameters));
  for (std::int64_t step = 0; step < 3; ++step) {
    window.open(step);
    window.begin({.index = 0});
    torch::autograd::backward({(weight * values.draw({width, width}, place.master)).sum()});
    window.commit(0, 2);
    auto gradient = window.close();
    gradient->clip(1.0);
    optimizer->step(std::move(*gradient), learning_rate);
  }
  return {weight.detach()};
}

std::vector<Case> all_cases() {
  const auto of_samples = [](bool drops) {
    return [drops](const Place& place) {
      return run_attention(place, {.dropout = drops ? 0.2 : 0.0}, context());
    };
  };
  const auto packed = [](const Place& place) {
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
       [](const Place& place) { return run_vocabulary_loss(place, {}); }},
      {"vocabulary loss, smoothed and capped", length * rows,
       [](const Place& place) {
         return run_vocabulary_loss(place,
                                    {.label_smoothing = 0.1, .z_loss = 1e-3, .soft_cap = 20});
       }},
      {"dropout by sample", 4, run_dropout},
      {"Adam with clipping", width, run_adam},
  };
}

/// 16 units of roundoff times the root of the terms, 4 in bf16 and fp16 (docs/numerics.md), of the
/// largest element.
double bound_of(at::ScalarType dtype, std::int64_t terms) {
  const double units = dtype == at::kFloat ? 16 : 4;
  const double half_unit = dtype == at::kBFloat16 ? 0x1p-9 : dtype == at::kHalf ? 0x1p-12 : 0x1p-24;
  return units * half_unit * std::sqrt(static_cast<double>(terms));
}

double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.cpu().to(at::kDouble), e = expected.cpu().to(at::kDouble);
  const double scale = e.abs().max().item<double>();
  return (a - e).abs().max().item<double>() / (scale == 0 ? 1 : scale);
}

std::string dtype_name(at::ScalarType dtype) {
  if (dtype == at::kHalf) return "fp16";
  return dtype == at::kBFloat16 ? "bf16" : "fp32";
}

/// Those that operations are compared in: accrue's own kernels have no fp16.
std::vector<at::ScalarType> dtypes_on(c10::Device device) {
  std::vector<at::ScalarType> dtypes{at::kFloat, at::kBFloat16};
  if (!device.is_cpu() || kernels::chosen_kernels() == kernels::Kernels::generic)
    dtypes.push_back(at::kHalf);
  return dtypes;
}

/// What went wrong, where something did.
template <class Check>
DeviceCheck attempt(std::string name, const Check& check) {
  DeviceCheck result{.name = std::move(name)};
  try {
    check(result);
    return result;
  } catch (const c10::Error& error) {
    result.detail = error.what_without_backtrace();
  } catch (const std::exception& error) {
    result.detail = error.what();
  }
  result.passed = false;
  return result;
}

DeviceCheck compare(const Case& one, c10::Device device, at::ScalarType dtype) {
  return attempt(std::string(one.name) + ", " + dtype_name(dtype), [&](DeviceCheck& result) {
    const Tensors actual = one.run({device, dtype, at::kFloat}),
                  expected = one.run({c10::kCPU, at::kDouble, at::kDouble});
    const double bound = bound_of(dtype, one.terms);
    double error = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const double of_this = relative_error(actual[i], expected[i]);
      error = of_this <= error ? error : of_this;  // NaN stays
    }
    result.passed = error <= bound;
    result.detail = "relative error " + number(error) + ", bound " + number(bound);
  });
}

DeviceCheck repeats(const Case& one, c10::Device device) {
  return attempt(std::string(one.name) + ", twice, to the bit", [&](DeviceCheck& result) {
    const Place place{device, at::kBFloat16, at::kFloat};
    const Tensors first = one.run(place), second = one.run(place);
    result.passed = true;
    for (std::size_t i = 0; i < first.size(); ++i)
      result.passed = result.passed && at::equal(first[i].cpu(), second[i].cpu());
    result.detail = result.passed ? "the same bits" : "other bits";
  });
}

/// The mask is a pure function of the sample: what is dropped is exactly the same.
DeviceCheck check_masks(c10::Device device) {
  return attempt("dropout masks, to the bit", [&](DeviceCheck& result) {
    const at::Tensor there = run_dropout({device, at::kFloat, at::kFloat})[0].cpu();
    const at::Tensor here = run_dropout({c10::kCPU, at::kFloat, at::kFloat})[0];
    result.passed = at::equal(there.ne(0), here.ne(0));
    result.detail = result.passed ? "the same elements" : "other elements";
  });
}

/// What three micro-batches of the same gradients add up to.
at::Tensor summed(c10::Device device, accum::Accumulation accumulation) {
  Values values({device, at::kFloat, at::kFloat});
  const at::Tensor weight = values.parameter({width, 3});
  accum::Window window(std::make_shared<accum::GradientBuffer>(NamedParameters{{"weight", weight}},
                                                               accumulation, /*rounding_seed=*/3));
  window.open(4);
  for (std::int64_t micro = 0; micro < 3; ++micro) {
    window.begin({.index = micro});
    torch::autograd::backward({(weight * values.draw({width, 3}, at::kFloat, 0.3)).sum()});
    window.commit(0, 1);
  }
  return accum::source_of(window.buffer()->entries().front()).scaled_copy(1, weight).cpu();
}

DeviceCheck check_sums(c10::Device device, accum::Accumulation accumulation) {
  return attempt(
      "sums in " + std::string(to_string(accumulation)) + ", to the bit", [&](DeviceCheck& result) {
        result.passed = at::equal(summed(device, accumulation), summed(c10::kCPU, accumulation));
        result.detail = result.passed ? "the CPU's bits" : "other bits";
      });
}

DeviceCheck check_states(c10::Device device, optim::StatePrecision precision) {
  const auto kept = [&](c10::Device place) {
    Values values({place, at::kFloat, at::kFloat});
    const at::Tensor parameter = values.parameter({width, width});
    const optim::KeptState state(parameter, optim::StateSign::any, precision);
    state.assign(parameter.detach(), rounding_stream(3, 1, {5, 6, 7, 8}));
    return state.whole().cpu();
  };
  return attempt("optimizer states in " + std::string(to_string(precision)) + ", to the bit",
                 [&](DeviceCheck& result) {
                   result.passed = at::equal(kept(device), kept(c10::kCPU));
                   result.detail = result.passed ? "the CPU's bits" : "other bits";
                 });
}

DeviceCheck check_memory(c10::Device device) {
  return attempt("memory statistics", [&](DeviceCheck& result) {
    if (device.is_cpu()) {
      result.passed = true;
      result.detail = "accrue's own allocator counts host memory";
      return;
    }
    constexpr std::int64_t bytes = 8 << 20;
    constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.type());
    const std::int64_t before =
        allocator->getDeviceStats(device.index()).allocated_bytes[all].current;
    const at::Tensor held = at::empty({bytes}, at::TensorOptions(at::kByte).device(device));
    const std::int64_t after =
        allocator->getDeviceStats(device.index()).allocated_bytes[all].current;
    const auto [free, total] = allocator->getMemoryInfo(device.index());
    result.passed = after - before == bytes && free > 0 && total >= free;
    result.detail = std::to_string(after - before) + " bytes counted of " + std::to_string(bytes);
  });
}

DeviceCheck check_pinned(c10::Device device) {
  return attempt("copies from pinned memory", [&](DeviceCheck& result) {
    const at::Tensor here = at::arange(1000, at::kLong);
    const at::Tensor there =
        device.is_cpu() ? here : here.pin_memory().to(device, /*non_blocking=*/true);
    result.passed = at::equal(there.cpu(), here);
    result.detail = result.passed ? "whole" : "other values";
  });
}

}  // namespace

std::vector<DeviceCheck> check_device(c10::Device device) {
  const at::AutoGradMode with_gradients(true);
  std::vector<DeviceCheck> checks;
  for (const Case& one : all_cases())
    for (const at::ScalarType dtype : dtypes_on(device))
      checks.push_back(compare(one, device, dtype));
  for (const Case& one : all_cases()) checks.push_back(repeats(one, device));
  checks.push_back(check_masks(device));
  for (const auto& [accumulation, word] : accum::accumulation_words.table)
    checks.push_back(check_sums(device, accumulation));
  for (const auto precision : {optim::StatePrecision::bf16, optim::StatePrecision::int8})
    checks.push_back(check_states(device, precision));
  checks.push_back(check_memory(device));
  checks.push_back(check_pinned(device));
  return checks;
}

}  // namespace accrue::proof
