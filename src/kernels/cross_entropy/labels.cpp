#include "kernels/cross_entropy/labels.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <span>
#include <string>

#include "accrue/core/error.h"
#include "accrue/kernels/cross_entropy.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

at::Tensor on_host(const at::Tensor& tensor) { return tensor.detach().cpu().contiguous(); }

/// `tensor` must be contiguous, on the host, and outlive the span.
template <class T>
std::span<const T> elements(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

void expect_logits(const at::Tensor& logits, const at::Tensor& targets) {
  if (logits.dim() >= 1 && at::isFloatingType(logits.scalar_type()) &&
      targets.scalar_type() == at::kLong &&
      targets.sizes() == logits.sizes().slice(0, logits.dim() - 1))
    return;
  throw usage_error("cross_entropy", "logits [..., K] and int64 targets [...]",
                    text_of(logits) + " and " + text_of(targets),
                    "a model whose output goes with the data");
}

/// targets [...] as [R], `ignored` in rows of weight 0.
at::Tensor counted_labels(const at::Tensor& targets, const CrossEntropyOptions& options) {
  const at::Tensor labels = targets.reshape({-1});
  if (!options.row_weights.defined()) return labels;
  const at::Tensor weightless = options.row_weights.reshape({-1}).to(labels.device()).eq(0);
  return labels.masked_fill(weightless, options.ignored);
}

}  // namespace

void expect_labels(std::string_view operation, const at::Tensor& targets, std::int64_t classes,
                   std::int64_t ignored) {
  const at::Tensor host = on_host(targets);
  const auto labels = elements<std::int64_t>(host);
  for (std::size_t row = 0; row < labels.size(); ++row)
    if (labels[row] != ignored && (labels[row] < 0 || labels[row] >= classes))
      throw usage_error(
          operation,
          "targets in [0, " + std::to_string(classes) + ") or " + std::to_string(ignored),
          std::to_string(labels[row]) + " in row " + std::to_string(row),
          "checking that the data belongs to the model");
}

void expect_row_weights(std::string_view operation, const at::Tensor& targets,
                        const at::Tensor& row_weights) {
  if (!row_weights.defined()) return;
  if (row_weights.scalar_type() != at::kFloat || row_weights.sizes() != targets.sizes())
    throw usage_error(operation, "row weights Float " + c10::str(targets.sizes()),
                      text_of(row_weights), "one fp32 weight for each target");
  if (row_weights.requires_grad() && at::GradMode::is_enabled())
    throw usage_error(operation, "row weights that require no gradient",
                      "some that depend on parameters",
                      "detach() of them, or torch's cross entropy times the weights");
  const at::Tensor host = on_host(row_weights);
  const auto weights = elements<float>(host);
  for (std::size_t row = 0; row < weights.size(); ++row)
    if (!(std::isfinite(weights[row]) && weights[row] >= 0))
      throw usage_error(operation, "row weights that are finite and not negative",
                        std::to_string(weights[row]) + " in row " + std::to_string(row),
                        "weight 0 for what is not to count");
}

void expect_terms(std::string_view operation, const CrossEntropyOptions& options) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing < 1))
    throw usage_error(operation, "label smoothing in [0, 1)",
                      std::to_string(options.label_smoothing), "0.1");
  if (!(options.z_loss >= 0 && std::isfinite(options.z_loss)))
    throw usage_error(operation, "a finite z-loss of 0 or more", std::to_string(options.z_loss),
                      "1e-4");
  if (!(options.soft_cap >= 0 && options.soft_cap <= largest_soft_cap))
    throw usage_error(operation, "a soft cap of 0 (none) to 40", std::to_string(options.soft_cap),
                      "30");
}

double label_weight(const at::Tensor& targets, const at::Tensor& row_weights,
                    std::int64_t ignored) {
  expect_row_weights("cross_entropy", targets, row_weights);
  const at::Tensor host = on_host(targets);
  const auto labels = elements<std::int64_t>(host);
  const at::Tensor host_weights = row_weights.defined() ? on_host(row_weights) : at::Tensor();
  const float* weights = row_weights.defined() ? host_weights.const_data_ptr<float>() : nullptr;
  double sum = 0;
  for (std::size_t row = 0; row < labels.size(); ++row)
    if (labels[row] != ignored) sum += weights == nullptr ? 1 : weights[row];
  return sum;
}

Loss cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                   const CrossEntropyOptions& options) {
  expect_logits(logits, targets);
  expect_labels("cross_entropy", targets, logits.size(-1), options.ignored);
  expect_terms("cross_entropy", options);
  const double weight = label_weight(targets, options.row_weights, options.ignored);
  const at::ScalarType precision = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor labels = counted_labels(targets, options).to(logits.device());
  const at::Tensor ignored = labels.eq(options.ignored);
  at::Tensor rows = logits.reshape({-1, logits.size(-1)}).to(precision);
  // Ignored rows do not count whatever their values, including 0 times infinity.
  if (ignored.any().item<bool>()) rows = rows.masked_fill(ignored.unsqueeze(-1), 0);
  if (options.soft_cap != 0) rows = options.soft_cap * at::tanh(rows / options.soft_cap);
  at::Tensor losses = at::cross_entropy_loss(rows, labels, {}, at::Reduction::None, options.ignored,
                                             options.label_smoothing);
  if (options.z_loss != 0)
    losses = losses + options.z_loss * rows.logsumexp(-1).square().masked_fill(ignored, 0);
  if (!options.row_weights.defined()) return {losses.sum(), weight};
  return {(losses * options.row_weights.reshape({-1}).to(losses.options())).sum(), weight};
}

}  // namespace accrue::kernels
