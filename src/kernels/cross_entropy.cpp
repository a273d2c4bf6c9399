#include "accrue/kernels/cross_entropy.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>
#include <optional>

#include "accrue/core/error.h"
#include "accrue/kernels/gemm.h"
#include "accrue/kernels/grad_slot.h"
#include "aten_element.h"
#include "elementwise.h"
#include "first_order.h"
#include "labels.h"
#include "linear_forward.h"
#include "parameter_gradient.h"
#include "tensor_text.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What one chunk's logits and the gradient of `hidden` may take together, unless that leaves the
/// logits less than `least_chunk_bytes`: each chunk reads the whole weight and adds to its whole
/// gradient, which few rows would not pay for. The former is a last-level cache; both were measured
/// (bench/micro/kernels_bench.cpp).
constexpr std::int64_t working_bytes = 32'000'000, least_chunk_bytes = 19'400'000;

/// Classes whose two products of the backward pass follow each other: their part of the logits'
/// gradient is then still in a core's cache. All at once are 7% slower, 512 and 1,024 about the
/// same.
constexpr std::int64_t tile_classes = 768;

/// About equal chunks, so that the last one is no remnant.
std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t most) {
  const std::int64_t chunks = (rows + most - 1) / most;
  return chunks == 0 ? 1 : (rows + chunks - 1) / chunks;
}

void expect_arguments(const at::Tensor& hidden, const at::Tensor& weight,
                      const at::Tensor& targets) {
  expect_on_cpu(hidden, "linear_cross_entropy");
  expect_linear("linear_cross_entropy", hidden, weight, {});
  if (targets.scalar_type() != at::kLong || targets.dim() != hidden.dim() - 1 ||
      targets.sizes() != hidden.sizes().slice(0, static_cast<std::size_t>(targets.dim())))
    throw usage_error("linear_cross_entropy",
                      "hidden [..., C], weight [V, C] and int64 targets [...]",
                      "hidden " + text_of(hidden) + ", weight " + text_of(weight) + ", targets " +
                          text_of(targets),
                      "one target for each row of hidden");
}

/// Where the weight's gradient is summed over the chunks: its open slot, or a tensor that autograd
/// gets.
class WeightGradient {
 public:
  explicit WeightGradient(const at::Tensor& weight) : slot_(open_slot_of(weight)) {
    if (slot_ == nullptr) sum_.into = at::empty(weight.sizes(), weight.options());
  }

  /// What the classes from `first` on get of the rows of one chunk. To be called for every class
  /// of a chunk before the next chunk.
  void add(std::int64_t first, const at::Tensor& grad_logits, const at::Tensor& hidden) {
    if (slot_ != nullptr && !any_) sum_ = slot_->contribute();
    any_ = true;
    const std::int64_t classes = grad_logits.size(1);
    at::Tensor rows = sum_.into.narrow(0, first, classes);
    gemm_out(rows, grad_logits.t(), hidden, sum_.add);
    if (first + classes == sum_.into.size(0)) sum_.add = true;
  }
  /// To be called after the last chunk. For autograd; undefined where a slot has it. What is not
  /// `whole` is no contribution: a slot is left with it unfinished, to be undone.
  at::Tensor take(bool whole) {
    if (slot_ != nullptr) {
      if (any_ && whole) slot_->done();
      return {};
    }
    return any_ ? sum_.into : sum_.into.zero_();
  }

 private:
  GradSlot* slot_;
  Contribution sum_;
  bool any_ = false;
};

struct Wanted {
  bool hidden = false, weight = false;
  bool any() const { return hidden || weight; }
};

struct Input {
  at::Tensor hidden, weight, compute, targets;  // hidden [R, C], targets [R]
  at::Tensor row_weights;                       // [R] or undefined
  std::int64_t ignored = ignored_label;
  rows::CrossEntropyTerms terms;
  double gradient_scale = 1;  // as the sum's precision has it
  std::int64_t chunk_rows = 1;
};

struct Result {
  double sum = 0;
  at::Tensor grad_hidden, grad_weight;  // where wanted
};

/// The loss of one chunk after another, with its gradients while its logits are at hand.
class Chunks {
 public:
  Chunks(const Input& input, Wanted wanted)
      : input_(input),
        wanted_(wanted),
        rows_(input.hidden.size(0)),
        size_(rows_per_chunk(rows_, input.chunk_rows)) {
    const at::TensorOptions options = input.hidden.options();
    const std::int64_t classes = input.weight.size(0);
    logits_ = at::empty({std::min(size_, rows_), classes},
                        options.dtype(accumulation_dtype(input.hidden.scalar_type())));
    if (!wanted.any()) return;
    // In the memory of the logits, row by row: bf16 takes the first half of it.
    grad_logits_ = logits_.view(input.hidden.scalar_type()).narrow(1, 0, classes);
    if (wanted.hidden) grad_hidden_ = at::empty(input.hidden.sizes(), options);
    // bf16 is rounded once, not tile by tile.
    if (wanted.hidden && options.dtype() != logits_.dtype())
      sums_ = at::empty({logits_.size(0), input.hidden.size(1)}, logits_.options());
    if (wanted.weight) grad_weight_.emplace(input.weight);
  }

  Result run() {
    Result result;
    for (std::int64_t begin = 0; begin < rows_; begin += size_) {
      const std::int64_t count = std::min(size_, rows_ - begin);
      result.sum += forward(begin, count);
      if (!is_finite(result.sum)) {
        // The micro-batch is lost; what its caller may see must still be defined.
        if (wanted_.hidden) grad_hidden_.narrow(0, begin, rows_ - begin).zero_();
        break;
      }
      if (wanted_.any()) backward(begin, count);
    }
    result.grad_hidden = grad_hidden_;
    if (grad_weight_) result.grad_weight = grad_weight_->take(is_finite(result.sum));
    return result;
  }

 private:
  /// In the precision of the sum that is returned.
  bool is_finite(double sum) const {
    return std::abs(sum) <= (logits_.scalar_type() == at::kDouble
                                 ? std::numeric_limits<double>::max()
                                 : std::numeric_limits<float>::max());
  }

  double forward(std::int64_t begin, std::int64_t count) {
    at::Tensor logits = logits_.narrow(0, 0, count);
    at::Tensor grad = wanted_.any() ? grad_logits_.narrow(0, 0, count) : at::Tensor();
    gemm_out(logits, input_.hidden.narrow(0, begin, count), input_.compute.t());
    const at::Tensor& weights = input_.row_weights;
    const elementwise::CrossEntropyRows labels{
        .targets = input_.targets.const_data_ptr<std::int64_t>() + begin,
        .row_weights = weights.defined() ? weights.const_data_ptr<float>() + begin : nullptr,
        .ignored = input_.ignored,
        .terms = input_.terms,
        .gradient_scale = input_.gradient_scale};
    return elementwise::cross_entropy_rows(logits, labels, wanted_.any() ? &grad : nullptr);
  }

  void backward(std::int64_t begin, std::int64_t count) {
    const at::Tensor hidden = input_.hidden.narrow(0, begin, count);
    const at::Tensor grad_logits = grad_logits_.narrow(0, 0, count);
    at::Tensor grad_hidden = wanted_.hidden ? hidden_sums(begin, count) : at::Tensor();
    const std::int64_t classes = grad_logits.size(1);
    for (std::int64_t first = 0; first < classes; first += tile_classes) {
      const std::int64_t size = std::min(tile_classes, classes - first);
      const at::Tensor tile = grad_logits.narrow(1, first, size);
      if (grad_weight_) grad_weight_->add(first, tile, hidden);
      if (wanted_.hidden)
        gemm_out(grad_hidden, tile, input_.compute.narrow(0, first, size),
                 /*accumulate=*/first > 0);
    }
    if (sums_.defined()) grad_hidden_.narrow(0, begin, count).copy_(grad_hidden);
  }

  /// Where the gradient of a chunk's hidden rows is summed over the tiles.
  at::Tensor hidden_sums(std::int64_t begin, std::int64_t count) {
    return sums_.defined() ? sums_.narrow(0, 0, count) : grad_hidden_.narrow(0, begin, count);
  }

  const Input& input_;
  Wanted wanted_;
  std::int64_t rows_, size_;
  at::Tensor logits_, grad_logits_, grad_hidden_, sums_;
  std::optional<WeightGradient> grad_weight_;
};

at::Tensor scalar_of(double sum, const at::Tensor& hidden) {
  // Not at::full: a sum beyond fp32 is to be an infinity, which is left out, and no error.
  return at::scalar_tensor(sum, at::kDouble).to(accumulation_dtype(hidden.scalar_type()));
}

/// The gradients exist before backward does: it hands them on.
class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& weight, const Input& input) {
    const Result result =
        Chunks(input, {.hidden = hidden.requires_grad(), .weight = weight.requires_grad()}).run();
    const at::Tensor grad_hidden =
        result.grad_hidden.defined() ? result.grad_hidden.view(hidden.sizes()) : at::Tensor();
    context->save_for_backward({grad_hidden, result.grad_weight});
    context->saved_data["gradient_scale"] = input.gradient_scale;
    return scalar_of(result.sum, hidden);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    expect_first_order("linear_cross_entropy");
    const variable_list saved = context->get_saved_variables();
    const double upstream = grads[0].item<double>();
    const double made_for = context->saved_data["gradient_scale"].toDouble();
    if (upstream == made_for) return {saved[0], saved[1], at::Tensor()};
    if (context->needs_input_grad(1) && !saved[1].defined())
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
    return {scaled(saved[0]), scaled(saved[1]), at::Tensor()};
  }

 private:
  static std::string text_of(double number) { return c10::str(number); }
};

void expect_options(const LinearCrossEntropyOptions& options) {
  expect_terms("linear_cross_entropy", options.loss);
  if (!std::isfinite(options.gradient_scale) || options.gradient_scale == 0)
    throw usage_error("linear_cross_entropy", "a finite gradient_scale that is not 0",
                      c10::str(options.gradient_scale),
                      "not running a loss whose gradient is not wanted");
  if (options.chunk_rows < 0)
    throw usage_error("linear_cross_entropy", "chunk_rows of 0 or more",
                      std::to_string(options.chunk_rows), "0, which chooses");
}

std::int64_t default_chunk_rows(const at::Tensor& hidden, const at::Tensor& weight) {
  const std::int64_t logit_bytes = weight.scalar_type() == at::kDouble ? 8 : 4;
  const std::int64_t summed = hidden.scalar_type() == at::kBFloat16 ? weight.size(1) : 0;
  const std::int64_t hidden_bytes = hidden.numel() * hidden.element_size();
  const std::int64_t chunk_bytes = std::max(least_chunk_bytes, working_bytes - hidden_bytes);
  return std::max<std::int64_t>(
      1, chunk_bytes / std::max<std::int64_t>(1, (weight.size(0) + summed) * logit_bytes));
}

Input input_of(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
               LowPrecisionCopy& copy, const LinearCrossEntropyOptions& options) {
  const at::Tensor& row_weights = options.loss.row_weights;
  const bool in_double = hidden.scalar_type() == at::kDouble;
  return {.hidden = as_matrix(hidden.detach()),
          .weight = weight,
          .compute = copy.of(weight, hidden.scalar_type()),
          .targets = targets.cpu().contiguous(),
          .row_weights = row_weights.defined() ? row_weights.cpu().contiguous() : row_weights,
          .ignored = options.loss.ignored,
          .terms = {.label_smoothing = options.loss.label_smoothing, .z_loss = options.loss.z_loss},
          .gradient_scale =
              in_double ? options.gradient_scale : static_cast<float>(options.gradient_scale),
          .chunk_rows =
              options.chunk_rows > 0 ? options.chunk_rows : default_chunk_rows(hidden, weight)};
}

}  // namespace

Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& targets, LowPrecisionCopy& copy,
                          const LinearCrossEntropyOptions& options) {
  expect_arguments(hidden, weight, targets);
  expect_options(options);
  expect_labels("linear_cross_entropy", targets, weight.size(0), options.loss.ignored);
  const double total = label_weight(targets, options.loss.row_weights, options.loss.ignored);
  const Input input = input_of(hidden, weight, targets, copy, options);
  if (at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad()))
    return {LinearCrossEntropy::apply(hidden, weight, input), total};
  const at::NoGradGuard no_grad;
  return {scalar_of(Chunks(input, {}).run().sum, hidden), total};
}

}  // namespace accrue::kernels
