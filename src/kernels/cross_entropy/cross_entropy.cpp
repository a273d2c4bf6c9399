#include "accrue/kernels/cross_entropy.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <cmath>
#include <optional>

#include "accrue/core/error.h"
#include "kernels/aten_element.h"
#include "kernels/checked_labels.h"
#include "kernels/cross_entropy/head_chunks.h"
#include "kernels/cross_entropy/labels.h"
#include "kernels/first_order.h"
#include "kernels/gemm/parameter_gradient.h"
#include "kernels/optional_tensor.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The gradients exist before backward, which passes them on.
class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            const HeadInput& input) {
    const HeadResult result =
        run_head_chunks(input, {.hidden = hidden.requires_grad(),
                                .weight = weight.requires_grad(),
                                .bias = bias.has_value() && bias->requires_grad()});
    const at::Tensor grad_hidden =
        result.grad_hidden.defined() ? result.grad_hidden.view(hidden.sizes()) : at::Tensor();
    context->save_for_backward({grad_hidden, result.grad_weight, result.grad_bias});
    context->saved_data["gradient_scale"] = input.gradient_scale;
    context->saved_data["has_bias"] = bias.has_value();
    context->saved_data["upstream"] = input.upstream;
    return result.sum;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    expect_first_order("linear_cross_entropy");
    const variable_list saved = context->get_saved_variables();
    const double made_for = context->saved_data["gradient_scale"].toDouble();
    const bool as_told = context->saved_data["upstream"].toOptional<double>() == made_for;
    const double upstream = as_told && !grads[0].is_cpu() ? made_for : grads[0].item<double>();
    if (upstream == made_for) return {saved[0], saved[1], saved[2], at::Tensor()};
    // A gradient that is not finite is passed on to `hidden`, where closing the window finds it.
    const bool shows_elsewhere = !std::isfinite(upstream) && saved[0].defined();
    if (slot_took_part(*context, saved) && !shows_elsewhere)
      throw usage_error("linear_cross_entropy",
                        "the gradient " + text_of(made_for) +
                            " for the sum it returned, as gradient_scale said where an open slot "
                            "took part",
                        text_of(upstream),
                        "backward() on the sum itself (the mean is taken when the window closes), "
                        "or gradient_scale = " +
                            text_of(upstream));
    const double factor = upstream / made_for;
    const auto scaled = [factor](const at::Tensor& gradient) {
      return gradient.defined() ? gradient * factor : gradient;
    };
    // If the graph is not kept, the saved tensors are not needed again. The gradient of hidden may
    // be in hidden's memory, which must not be changed again.
    if (torch::autograd::get_current_graph_task_keep_graph())
      return {scaled(saved[0]), scaled(saved[1]), scaled(saved[2]), at::Tensor()};
    for (const std::size_t i : {1, 2})
      if (saved[i].defined()) saved[i].mul_(factor);
    return {scaled(saved[0]), saved[1], saved[2], at::Tensor()};
  }

 private:
  /// An absent bias has no edge.
  static bool slot_took_part(const AutogradContext& context, const variable_list& saved) {
    const bool has_bias = context.saved_data.at("has_bias").toBool();
    return (context.needs_input_grad(1) && !saved[1].defined()) ||
           (has_bias && context.needs_input_grad(2) && !saved[2].defined());
  }
  static std::string text_of(double number) { return c10::str(number); }
};

/// Rounds a gradient of the sum to the sum's precision.
double rounded_as_sum(const at::Tensor& hidden, double gradient) {
  return hidden.scalar_type() == at::kDouble ? gradient : static_cast<float>(gradient);
}

void expect_options(const at::Tensor& hidden, const LinearCrossEntropyOptions& options) {
  expect_terms("linear_cross_entropy", options.loss);
  const double scale = rounded_as_sum(hidden, options.gradient_scale);
  if (!std::isfinite(scale) || scale == 0)
    throw usage_error("linear_cross_entropy",
                      "a gradient_scale that is finite and not 0 in the precision of the sum",
                      c10::str(options.gradient_scale),
                      "a scale nearer to 1, or not running a loss whose gradient is not wanted");
  if (options.chunk_rows < 0)
    throw usage_error("linear_cross_entropy", "chunk_rows of 0 or more",
                      std::to_string(options.chunk_rows), "0, which chooses");
}

/// The total weight of the labels, after checking that they belong to the classes.
double checked_weight(const at::Tensor& targets, std::int64_t classes,
                      const CrossEntropyOptions& loss) {
  if (are_checked(targets)) return 0;
  expect_labels("linear_cross_entropy", targets, classes, loss.ignored);
  return label_weight(targets, loss.row_weights, loss.ignored);
}

HeadInput input_of(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                   PreparedWeight& prepared, const LinearCrossEntropyOptions& options) {
  CrossEntropyOptions loss = options.loss;
  if (loss.row_weights.defined()) loss.row_weights = loss.row_weights.cpu().contiguous();
  return {.hidden = as_matrix(hidden.detach()),
          .weight = weight,
          .compute = prepared.copy(weight, hidden.scalar_type()),
          .targets = (are_checked(targets) ? targets : targets.cpu()).contiguous(),
          .bias = options.bias,
          .loss = loss,
          .gradient_scale = rounded_as_sum(hidden, options.gradient_scale),
          .chunk_rows = options.chunk_rows,
          .overwrite_hidden = options.overwrite_hidden && hidden.is_contiguous(),
          .upstream = options.upstream ? std::optional(rounded_as_sum(hidden, *options.upstream))
                                       : std::nullopt};
}

}  // namespace

Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& targets, PreparedWeight& prepared,
                          const LinearCrossEntropyOptions& options) {
  expect_head_arguments("linear_cross_entropy", hidden, weight, options.bias, targets);
  expect_options(hidden, options);
  const double total = checked_weight(targets, weight.size(0), options.loss);
  const HeadInput input = input_of(hidden, weight, targets, prepared, options);
  const std::optional<at::Tensor> bias = optional_of(options.bias);
  if (at::GradMode::is_enabled() &&
      (hidden.requires_grad() || weight.requires_grad() || (bias && bias->requires_grad())))
    return {LinearCrossEntropy::apply(hidden, weight, bias, input), total};
  const at::NoGradGuard no_grad;
  return {run_head_chunks(input, {}).sum, total};
}

}  // namespace accrue::kernels
