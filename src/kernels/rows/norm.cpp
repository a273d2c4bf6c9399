#include "accrue/kernels/norm.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>

#include "accrue/core/error.h"
#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/first_order.h"
#include "kernels/gemm/parameter_gradient.h"
#include "kernels/grain.h"
#include "kernels/rows/norm_simd.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void* at_row(const at::Tensor& tensor, std::int64_t row) {
  if (!tensor.defined()) return nullptr;
  // The const is taken off only here: kernels that only read take it as const again.
  return static_cast<char*>(const_cast<void*>(tensor.const_data_ptr())) +
         row * tensor.size(-1) * tensor.element_size();
}

void expect_arguments(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      at::ScalarType out) {
  expect_on_cpu(x, "layer_norm");
  const at::ScalarType dtype = x.scalar_type();
  if (dtype != at::kFloat && dtype != at::kDouble)
    throw usage_error("layer_norm", "x in fp32 or fp64", c10::toString(dtype),
                      "keeping the residual stream in fp32");
  if (out != dtype && out != at::kBFloat16)
    throw usage_error("layer_norm", "a result in x's dtype or bf16", c10::toString(out),
                      "passing x.scalar_type()");
  for (const at::Tensor& parameter : {weight, bias})
    if (x.dim() < 1 || parameter.numel() != x.size(-1) || parameter.scalar_type() != dtype)
      throw usage_error("layer_norm", "weight and bias of x's dtype, one element per channel of x",
                        std::to_string(parameter.numel()) + " elements of " +
                            c10::toString(parameter.scalar_type()),
                        "checking the model's width");
}

struct Normalised {
  at::Tensor sum, out, statistics;
};

/// `y` may be undefined.
Normalised normalise(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                     const at::Tensor& bias, double eps, at::ScalarType out_dtype) {
  const std::int64_t columns = x.size(-1), rows = columns == 0 ? 0 : x.numel() / columns;
  Normalised result;
  if (y.defined()) result.sum = at::empty(x.sizes(), x.options());
  result.out = at::empty(x.sizes(), x.options().dtype(out_dtype));
  result.statistics = at::empty({rows, 2}, x.options());
  RECORD_FUNCTION("accrue::layer_norm", span_of({x, y, result.sum, result.out}));
  const at::Tensor scale = weight.contiguous(), shift = bias.contiguous();
  at::parallel_for(0, rows, grain_of(columns), [&](std::int64_t begin, std::int64_t end) {
    rows::norm_forward({
        .master = element_of(x.scalar_type(), "layer_norm"),
        .y_type = element_of(y.defined() ? y.scalar_type() : x.scalar_type(), "layer_norm"),
        .out_type = element_of(out_dtype, "layer_norm"),
        .rows = static_cast<std::size_t>(end - begin),
        .columns = static_cast<std::size_t>(columns),
        .eps = eps,
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

struct Parameters {
  at::Tensor weight, bias;
  bool wants_weight, wants_bias;  ///< whether these get a gradient
};

struct Gradients {
  at::Tensor input, y, weight, bias;
};

/// `grad_sum` may be undefined; y's gradient is made on its own only where it is bf16.
Gradients backward_of(const at::Tensor& grad_out, const at::Tensor& grad_sum,
                      const at::Tensor& input, const at::Tensor& statistics,
                      const Parameters& parameters, at::ScalarType y_dtype) {
  const std::int64_t columns = input.size(-1), rows = statistics.size(0);
  // Chunks depend on the number of rows alone, so the order of additions does not depend on the
  // threads.
  const std::int64_t chunks = std::clamp<std::int64_t>(rows / 32, 1, 16);
  const at::Tensor partial = at::zeros({2, chunks, columns}, input.options());
  const at::Tensor weight_sums = partial[0], bias_sums = partial[1];
  const at::Tensor scale = parameters.weight.contiguous();
  Gradients result;
  result.input = at::empty(input.sizes(), input.options());
  const bool separate_y = y_dtype != input.scalar_type();
  if (separate_y) result.y = at::empty(input.sizes(), input.options().dtype(y_dtype));
  RECORD_FUNCTION("accrue::layer_norm_backward",
                  span_of({grad_out, grad_sum, input, result.input, result.y}));
  at::parallel_for(0, chunks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t chunk = first; chunk < last; ++chunk) {
      const std::int64_t begin = rows * chunk / chunks, end = rows * (chunk + 1) / chunks;
      rows::norm_backward({
          .master = element_of(input.scalar_type(), "layer_norm"),
          .out_type = element_of(grad_out.scalar_type(), "layer_norm"),
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

at::Tensor contiguous_or_none(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

struct LayerNorm : torch::autograd::Function<LayerNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, double eps, at::ScalarType out) {
    const at::Tensor input = x.contiguous();
    Normalised result = normalise(input, {}, weight, bias, eps, out);
    context->save_for_backward({input, result.statistics, weight, bias});
    return result.out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order("layer_norm");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const Gradients result = backward_of(
        grads[0].contiguous(), {}, input, saved[1],
        {saved[2], saved[3], context->needs_input_grad(1), context->needs_input_grad(2)},
        input.scalar_type());
    return {result.input, result.weight, result.bias, {}, {}};
  }
};

/// Differentiates {sum, layer_norm(sum)}: the gradients are those of the sum, y, the weight and the
/// bias.
variable_list residual_backward(const variable_list& grads, const at::Tensor& sum,
                                const at::Tensor& statistics, const Parameters& parameters,
                                at::ScalarType y_dtype) {
  const at::Tensor grad_sum = contiguous_or_none(grads[0]);
  if (!grads[1].defined()) {
    if (!grad_sum.defined()) return variable_list(4);
    return {grad_sum, grad_sum.to(y_dtype), {}, {}};
  }
  const Gradients result =
      backward_of(grads[1].contiguous(), grad_sum, sum, statistics, parameters, y_dtype);
  return {result.input, result.y, result.weight, result.bias};
}

struct BranchLayerNorm : torch::autograd::Function<BranchLayerNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const at::Tensor& weight, const at::Tensor& bias, double eps,
                               at::ScalarType out) {
    const at::Tensor input = x.contiguous();
    Normalised result = normalise(input, {}, weight, bias, eps, out);
    context->set_materialize_grads(false);
    context->save_for_backward({input, result.statistics, weight, bias});
    return {x, result.out};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order("branch_layer_norm");
    const variable_list saved = context->get_saved_variables();
    const variable_list result = residual_backward(
        grads, saved[0], saved[1],
        {saved[2], saved[3], context->needs_input_grad(1), context->needs_input_grad(2)},
        saved[0].scalar_type());
    return {result[0], result[2], result[3], {}, {}};
  }
};

struct AddLayerNorm : torch::autograd::Function<AddLayerNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& y,
                               const at::Tensor& weight, const at::Tensor& bias, double eps,
                               at::ScalarType out) {
    Normalised result = normalise(x.contiguous(), y.contiguous(), weight, bias, eps, out);
    context->set_materialize_grads(false);
    context->saved_data["y_dtype"] = static_cast<std::int64_t>(y.scalar_type());
    context->save_for_backward({result.sum, result.statistics, weight, bias});
    return {result.sum, result.out};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order("add_layer_norm");
    const variable_list saved = context->get_saved_variables();
    const variable_list result = residual_backward(
        grads, saved[0], saved[1],
        {saved[2], saved[3], context->needs_input_grad(2), context->needs_input_grad(3)},
        static_cast<at::ScalarType>(context->saved_data["y_dtype"].toInt()));
    return {result[0], result[1], result[2], result[3], {}, {}};
  }
};

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps, at::ScalarType out) {
  expect_arguments(x, weight, bias, out);
  return LayerNorm::apply(x, weight, bias, eps, out);
}

std::pair<at::Tensor, at::Tensor> branch_layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& bias, double eps,
                                                    at::ScalarType out) {
  expect_arguments(x, weight, bias, out);
  const variable_list results = BranchLayerNorm::apply(x, weight, bias, eps, out);
  return {results[0], results[1]};
}

std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& y,
                                                 const at::Tensor& weight, const at::Tensor& bias,
                                                 double eps, at::ScalarType out) {
  expect_arguments(x, weight, bias, out);
  if (y.sizes() != x.sizes() ||
      (y.scalar_type() != x.scalar_type() && y.scalar_type() != at::kBFloat16))
    throw usage_error("add_layer_norm", "y of x's shape, in x's dtype or bf16",
                      std::to_string(y.numel()) + " elements of " + c10::toString(y.scalar_type()),
                      "checking what is added to the residual stream");
  const variable_list results = AddLayerNorm::apply(x, y, weight, bias, eps, out);
  return {results[0], results[1]};
}

}  // namespace accrue::kernels
