#include "accrue/kernels/log_probabilities.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "accrue/core/error.h"
#include "kernels/cross_entropy/head_chunks.h"
#include "kernels/cross_entropy/labels.h"
#include "kernels/first_order.h"
#include "kernels/gemm/parameter_gradient.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The rows that count: their indices among all rows, undefined if all do, and their targets.
struct CountedRows {
  at::Tensor places, targets;

  at::Tensor of(const at::Tensor& rows) const {
    return places.defined() ? rows.index_select(0, places.to(rows.device())) : rows;
  }
};

CountedRows counted_rows(const at::Tensor& targets, std::int64_t ignored) {
  const at::Tensor all = targets.cpu().reshape({-1}).contiguous();
  const at::Tensor places = all.ne(ignored).nonzero().squeeze(1);
  if (places.size(0) == all.size(0)) return {.places = {}, .targets = all};
  return {.places = places, .targets = all.index_select(0, places)};
}

/// The head's input of the rows that count; its hidden rows are a copy if not all do.
HeadInput input_of(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& compute,
                   const CountedRows& rows, const LogProbabilityOptions& options) {
  return {.hidden = rows.of(as_matrix(hidden.detach())).contiguous(),
          .weight = weight,
          .compute = compute,
          .targets = rows.targets,
          .loss = {.ignored = options.ignored, .soft_cap = options.soft_cap},
          .chunk_rows = options.chunk_rows,
          .overwrite_hidden = rows.places.defined()};
}

/// Rows after a chunk whose logits are not finite stay NaN: they were not computed.
at::Tensor log_probabilities(const at::Tensor& hidden, const at::Tensor& weight,
                             const at::Tensor& compute, const at::Tensor& targets,
                             const LogProbabilityOptions& options) {
  const CountedRows rows = counted_rows(targets, options.ignored);
  HeadInput input = input_of(hidden, weight, compute, rows, options);
  at::Tensor losses =
      at::full(rows.targets.sizes(), std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  input.row_losses = losses;
  run_head_chunks(input, {});
  losses.neg_();
  if (!rows.places.defined()) return losses.view(targets.sizes());
  return at::zeros({targets.numel()}, at::kDouble)
      .index_copy_(0, rows.places, losses)
      .view(targets.sizes());
}

class LinearLogProbabilities : public torch::autograd::Function<LinearLogProbabilities> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& weight, const at::Tensor& compute,
                            const at::Tensor& targets, const LogProbabilityOptions& options) {
    context->save_for_backward({hidden, weight, compute, targets});
    context->saved_data["ignored"] = options.ignored;
    context->saved_data["soft_cap"] = options.soft_cap;
    context->saved_data["chunk_rows"] = options.chunk_rows;
    return log_probabilities(hidden, weight, compute, targets, options);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    expect_first_order("linear_log_probabilities");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& hidden = saved[0];
    const LogProbabilityOptions options{.ignored = context->saved_data["ignored"].toInt(),
                                        .soft_cap = context->saved_data["soft_cap"].toDouble(),
                                        .chunk_rows = context->saved_data["chunk_rows"].toInt()};
    const CountedRows rows = counted_rows(saved[3], options.ignored);
    // A row's loss is minus its log-probability.
    const at::Tensor factors = rows.of(grads[0].reshape({-1}).neg()).contiguous();
    HeadInput input = input_of(hidden, saved[1], saved[2], rows, options);
    input.row_factors = factors;
    const HeadResult result = run_head_chunks(
        input, {.hidden = context->needs_input_grad(0), .weight = context->needs_input_grad(1)});
    return {spread(result.grad_hidden, rows, hidden), result.grad_weight, at::Tensor(),
            at::Tensor(), at::Tensor()};
  }

 private:
  /// The gradient of all rows of `hidden`: 0 if no label counts.
  static at::Tensor spread(const at::Tensor& gradient, const CountedRows& rows,
                           const at::Tensor& hidden) {
    if (!gradient.defined()) return {};
    if (!rows.places.defined()) return gradient.view(hidden.sizes());
    return at::zeros({rows_of(hidden), hidden.size(-1)}, hidden.options())
        .index_copy_(0, rows.places.to(hidden.device()), gradient)
        .view(hidden.sizes());
  }

  static std::int64_t rows_of(const at::Tensor& hidden) { return hidden.numel() / hidden.size(-1); }
};

}  // namespace

at::Tensor linear_log_probabilities(const at::Tensor& hidden, const at::Tensor& weight,
                                    const at::Tensor& targets, PreparedWeight& prepared,
                                    const LogProbabilityOptions& options) {
  constexpr const char* operation = "linear_log_probabilities";
  expect_head_arguments(operation, hidden, weight, /*bias=*/{}, targets);
  expect_terms(operation, {.soft_cap = options.soft_cap});
  expect_labels(operation, targets, weight.size(0), options.ignored);
  const at::Tensor compute = prepared.copy(weight, hidden.scalar_type()).detach();
  if (at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad()))
    return LinearLogProbabilities::apply(hidden, weight, compute, targets, options);
  const at::NoGradGuard no_grad;
  return log_probabilities(hidden, weight, compute, targets, options);
}

}  // namespace accrue::kernels
