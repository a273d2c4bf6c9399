#include "accrue/kernels/norm.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "accrue/core/error.h"
#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/backend.h"
#include "kernels/cpu_passes.h"
#include "kernels/first_order.h"
#include "kernels/gemm/parameter_gradient.h"
#include "kernels/grain.h"
#include "kernels/rows/norm.h"
#include "kernels/rows/norm_simd.h"
#include "kernels/saved_value.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void* at_row(const at::Tensor& tensor, std::int64_t row) {
  if (!tensor.defined()) return nullptr;
  // The const is only removed here: kernels that only read take it as const again.
  return static_cast<char*>(const_cast<void*>(tensor.const_data_ptr())) +
         row * tensor.size(-1) * tensor.element_size();
}

at::Tensor contiguous_or_none(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

/// The name under which a pass's time is reported.
constexpr const char* span_name(bool centred, bool backward) {
  if (centred) return backward ? "accrue::layer_norm_backward" : "accrue::layer_norm";
  return backward ? "accrue::rms_norm_backward" : "accrue::rms_norm";
}

void expect_parameters(const NormPlan& plan, const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias) {
  const at::ScalarType dtype = accumulation_dtype(x.scalar_type());
  for (const at::Tensor& parameter : {weight, bias})
    if (parameter.defined() &&
        (x.dim() < 1 || parameter.numel() != x.size(-1) || parameter.scalar_type() != dtype))
      throw usage_error(
          plan.name,
          std::string("parameters of ") + c10::toString(dtype) + ", one element per channel of x",
          std::to_string(parameter.numel()) + " elements of " +
              c10::toString(parameter.scalar_type()),
          "checking the model's width");
}

void expect_arguments(const NormPlan& plan, const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias) {
  const at::ScalarType dtype = x.scalar_type();
  if (dtype != at::kFloat && dtype != at::kDouble)
    throw usage_error(plan.name, "x in fp32 or fp64", c10::toString(dtype),
                      "keeping the residual stream in fp32");
  if (plan.out != dtype && !is_sixteen_bit(plan.out))
    throw usage_error(plan.name, "a result in x's dtype, bf16 or fp16", c10::toString(plan.out),
                      "passing x.scalar_type()");
  expect_parameters(plan, x, weight, bias);
}

void expect_addend(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y) {
  if (y.sizes() != x.sizes() ||
      (y.scalar_type() != x.scalar_type() && !is_sixteen_bit(y.scalar_type())))
    throw usage_error(plan.name, "y of x's shape, in x's dtype, bf16 or fp16",
                      std::to_string(y.numel()) + " elements of " + c10::toString(y.scalar_type()),
                      "checking what is added to the residual stream");
}

}  // namespace

Normalised normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                     const NormParameters& parameters) {
  return backend_of(x).normalise(plan, x, y, parameters);
}

NormGradients norm_gradients(const NormPlan& plan, const at::Tensor& grad_out,
                             const at::Tensor& grad_sum, const at::Tensor& input,
                             const at::Tensor& statistics, const NormParameters& parameters,
                             at::ScalarType y_dtype) {
  return backend_of(input).norm_gradients(plan, grad_out, grad_sum, input, statistics, parameters,
                                          y_dtype);
}

Normalised cpu::normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                          const NormParameters& parameters) {
  const std::int64_t columns = x.size(-1), rows = columns == 0 ? 0 : x.numel() / columns;
  const at::ScalarType master = accumulation_dtype(x.scalar_type());
  Normalised result;
  if (y.defined()) result.sum = at::empty(x.sizes(), x.options());
  result.out = at::empty(x.sizes(), x.options().dtype(plan.out));
  result.statistics = at::empty({rows, 2}, x.options().dtype(master));
  RECORD_FUNCTION(span_name(parameters.bias.defined(), false),
                  span_of({x, y, result.sum, result.out}));
  const at::Tensor scale = parameters.factors(), shift = contiguous_or_none(parameters.bias);
  at::parallel_for(0, rows, grain_of(columns), [&](std::int64_t begin, std::int64_t end) {
    rows::norm_forward({
        .master = element_of(master, plan.name),
        .x_type = element_of(x.scalar_type(), plan.name),
        .y_type = element_of(y.defined() ? y.scalar_type() : x.scalar_type(), plan.name),
        .out_type = element_of(plan.out, plan.name),
        .rows = static_cast<std::size_t>(end - begin),
        .columns = static_cast<std::size_t>(columns),
        .eps = plan.eps,
        .x = at_row(x, begin),
        .y = at_row(y, begin),
        .sum = at_row(result.sum, begin),
        .weight = at_row(scale, 0),
        .bias = at_row(shift, 0),
        .out = at_row(result.out, begin),
        .statistics = at_row(result.statistics, begin),
    });
  });
  return result;
}

NormGradients cpu::norm_gradients(const NormPlan& plan, const at::Tensor& grad_out,
                                  const at::Tensor& grad_sum, const at::Tensor& input,
                                  const at::Tensor& statistics, const NormParameters& parameters,
                                  at::ScalarType y_dtype) {
  const std::int64_t columns = input.size(-1), rows = statistics.size(0);
  const bool centred = parameters.bias.defined();
  // Chunks depend only on the number of rows, so the order of additions does not depend on the
  // threads.
  const std::int64_t chunks = std::clamp<std::int64_t>(rows / 32, 1, 16);
  const at::Tensor partial = at::zeros({centred ? 2 : 1, chunks, columns}, statistics.options());
  const at::Tensor weight_sums = partial[0], bias_sums = centred ? partial[1] : at::Tensor();
  const at::Tensor scale = parameters.factors();
  NormGradients result;
  result.input = at::empty(input.sizes(), input.options());
  const bool separate_y = y_dtype != input.scalar_type();
  if (separate_y) result.y = at::empty(input.sizes(), input.options().dtype(y_dtype));
  RECORD_FUNCTION(span_name(centred, true),
                  span_of({grad_out, grad_sum, input, result.input, result.y}));
  at::parallel_for(0, chunks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t chunk = first; chunk < last; ++chunk) {
      const std::int64_t begin = rows * chunk / chunks, end = rows * (chunk + 1) / chunks;
      rows::norm_backward({
          .master = element_of(statistics.scalar_type(), plan.name),
          .input_type = element_of(input.scalar_type(), plan.name),
          .out_type = element_of(grad_out.scalar_type(), plan.name),
          .rows = static_cast<std::size_t>(end - begin),
          .columns = static_cast<std::size_t>(columns),
          .grad_out = at_row(grad_out, begin),
          .grad_sum = at_row(grad_sum, begin),
          .input = at_row(input, begin),
          .statistics = at_row(statistics, begin),
          .weight = at_row(scale, 0),
          .grad_input = at_row(result.input, begin),
          .grad_y = at_row(result.y, begin),
          .weight_sums = at_row(weight_sums, chunk),
          .bias_sums = at_row(bias_sums, chunk),
      });
    }
  });
  if (!separate_y) result.y = result.input;
  if (parameters.wants_weight) result.weight = row_sum_gradient(parameters.weight, weight_sums);
  if (parameters.wants_bias) result.bias = row_sum_gradient(parameters.bias, bias_sums);
  return result;
}

namespace {

const NormPlan& saved_plan(const AutogradContext& context) {
  return from_saved<NormPlan>(context.saved_data.at("plan"));
}

void save_norm(AutogradContext& context, const NormPlan& plan, const at::Tensor& input,
               const Normalised& result, const NormParameters& parameters) {
  context.saved_data["plan"] = to_saved(plan);
  context.save_for_backward({input, result.statistics, parameters.weight, parameters.bias});
}

/// The saved tensors and the gradients that are needed; the weight is input `first` of the
/// operation. An absent bias has no edge.
NormParameters parameters_of(const AutogradContext& context, const variable_list& saved,
                             std::size_t first) {
  return {.weight = saved[2],
          .bias = saved[3],
          .offset = saved_plan(context).offset,
          .wants_weight = context.needs_input_grad(first),
          .wants_bias = saved[3].defined() && context.needs_input_grad(first + 1)};
}

struct Norm : torch::autograd::Function<Norm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const NormPlan& plan) {
    const at::Tensor input = x.contiguous();
    const NormParameters parameters{weight, bias.value_or(at::Tensor()), plan.offset};
    Normalised result = normalise(plan, input, {}, parameters);
    save_norm(*context, plan, input, result, parameters);
    return result.out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order(saved_plan(*context).name);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const NormGradients result =
        norm_gradients(saved_plan(*context), grads[0].contiguous(), {}, input, saved[1],
                       parameters_of(*context, saved, 1), input.scalar_type());
    return {result.input, result.weight, result.bias, {}};
  }
};

/// Differentiates {sum, norm(sum)}: the gradients are those of the sum, y, the weight and the bias.
variable_list residual_backward(const NormPlan& plan, const variable_list& grads,
                                const at::Tensor& sum, const at::Tensor& statistics,
                                const NormParameters& parameters, at::ScalarType y_dtype) {
  const at::Tensor grad_sum = contiguous_or_none(grads[0]);
  if (!grads[1].defined()) {
    if (!grad_sum.defined()) return variable_list(4);
    return {grad_sum, grad_sum.to(y_dtype), {}, {}};
  }
  const NormGradients result =
      norm_gradients(plan, grads[1].contiguous(), grad_sum, sum, statistics, parameters, y_dtype);
  return {result.input, result.y, result.weight, result.bias};
}

struct BranchNorm : torch::autograd::Function<BranchNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                               const NormPlan& plan) {
    const at::Tensor input = x.contiguous();
    const NormParameters parameters{weight, bias.value_or(at::Tensor()), plan.offset};
    Normalised result = normalise(plan, input, {}, parameters);
    context->set_materialize_grads(false);
    save_norm(*context, plan, input, result, parameters);
    return {x, result.out};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order(saved_plan(*context).name);
    const variable_list saved = context->get_saved_variables();
    const variable_list result =
        residual_backward(saved_plan(*context), grads, saved[0], saved[1],
                          parameters_of(*context, saved, 1), saved[0].scalar_type());
    return {result[0], result[2], result[3], {}};
  }
};

struct AddNorm : torch::autograd::Function<AddNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& y,
                               const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                               const NormPlan& plan) {
    const NormParameters parameters{weight, bias.value_or(at::Tensor()), plan.offset};
    Normalised result = normalise(plan, x.contiguous(), y.contiguous(), parameters);
    context->set_materialize_grads(false);
    context->saved_data["y_dtype"] = static_cast<std::int64_t>(y.scalar_type());
    save_norm(*context, plan, result.sum, result, parameters);
    return {result.sum, result.out};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order(saved_plan(*context).name);
    const variable_list saved = context->get_saved_variables();
    const variable_list result = residual_backward(
        saved_plan(*context), grads, saved[0], saved[1], parameters_of(*context, saved, 2),
        static_cast<at::ScalarType>(context->saved_data["y_dtype"].toInt()));
    return {result[0], result[1], result[2], result[3], {}};
  }
};

std::pair<at::Tensor, at::Tensor> pair_of(const variable_list& results) {
  return {results[0], results[1]};
}

NormPlan layer_norm_plan(double eps, at::ScalarType out) {
  return {.name = "layer_norm", .eps = eps, .offset = 0, .out = out};
}

NormPlan rms_norm_plan(const RmsNormOptions& options, at::ScalarType out) {
  return {.name = "rms_norm", .eps = options.eps, .offset = options.offset, .out = out};
}

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps, at::ScalarType out) {
  const NormPlan plan = layer_norm_plan(eps, out);
  expect_arguments(plan, x, weight, bias);
  return Norm::apply(x, weight, std::optional(bias), plan);
}

std::pair<at::Tensor, at::Tensor> branch_layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& bias, double eps,
                                                    at::ScalarType out) {
  const NormPlan plan = layer_norm_plan(eps, out);
  expect_arguments(plan, x, weight, bias);
  return pair_of(BranchNorm::apply(x, weight, std::optional(bias), plan));
}

std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& y,
                                                 const at::Tensor& weight, const at::Tensor& bias,
                                                 double eps, at::ScalarType out) {
  const NormPlan plan = layer_norm_plan(eps, out);
  expect_arguments(plan, x, weight, bias);
  expect_addend(plan, x, y);
  return pair_of(AddNorm::apply(x, y, weight, std::optional(bias), plan));
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, const RmsNormOptions& options,
                    at::ScalarType out) {
  const NormPlan plan = rms_norm_plan(options, out);
  if (is_sixteen_bit(x.scalar_type()) && out == x.scalar_type()) {
    expect_parameters(plan, x, weight, {});
  } else {
    expect_arguments(plan, x, weight, {});
  }
  return Norm::apply(x, weight, std::optional<at::Tensor>(), plan);
}

std::pair<at::Tensor, at::Tensor> branch_rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                                  const RmsNormOptions& options,
                                                  at::ScalarType out) {
  const NormPlan plan = rms_norm_plan(options, out);
  expect_arguments(plan, x, weight, {});
  return pair_of(BranchNorm::apply(x, weight, std::optional<at::Tensor>(), plan));
}

std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y,
                                               const at::Tensor& weight,
                                               const RmsNormOptions& options, at::ScalarType out) {
  const NormPlan plan = rms_norm_plan(options, out);
  expect_arguments(plan, x, weight, {});
  expect_addend(plan, x, y);
  return pair_of(AddNorm::apply(x, y, weight, std::optional<at::Tensor>(), plan));
}

}  // namespace accrue::kernels
