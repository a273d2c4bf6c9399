#include "accrue/kernels/cross_entropy.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
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

/// Chunks of this size stay near the last cache level between the passes over them. At least
/// `least_rows`: each chunk reads the whole weight, which few rows would not pay for.
constexpr std::int64_t logits_bytes = std::int64_t{6} << 20;
constexpr std::int64_t least_rows = 128;

/// Rows of about equal chunks, so that the last one is no remnant.
std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t bytes_per_row) {
  const std::int64_t most =
      std::max(least_rows, logits_bytes / std::max<std::int64_t>(1, bytes_per_row));
  const std::int64_t chunks = std::max<std::int64_t>(1, (rows + most - 1) / most);
  return std::max<std::int64_t>(1, (rows + chunks - 1) / chunks);
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

  void add(const at::Tensor& grad_logits, const at::Tensor& hidden) {
    if (slot_ != nullptr && !any_) sum_ = slot_->contribute();
    gemm_out(sum_.into, grad_logits.t(), hidden, sum_.add);
    sum_.add = any_ = true;
  }
  /// To be called after the last chunk. For autograd; undefined where a slot has it.
  at::Tensor take() {
    if (slot_ != nullptr) {
      if (any_) slot_->done();
      return {};
    }
    return any_ ? sum_.into : sum_.into.zero_();
  }

 private:
  GradSlot* slot_;
  GradSlot::Contribution sum_;
  bool any_ = false;
};

struct Wanted {
  bool hidden = false, weight = false;
  bool any() const { return hidden || weight; }
};

struct Input {
  at::Tensor hidden, weight, compute, targets;  // hidden [R, C], targets [R]
  at::Tensor row_weights;                       // [R] or undefined
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
        size_(rows_per_chunk(rows_, classes() * elements_of(input.hidden))) {
    const at::TensorOptions options = input.hidden.options();
    const std::int64_t largest = std::min(size_, rows_);
    logits_ = at::empty({largest, classes()},
                        options.dtype(accumulation_dtype(input.hidden.scalar_type())));
    if (!wanted.any()) return;
    grad_logits_ = logits_;
    if (logits_.scalar_type() != input.hidden.scalar_type())
      grad_logits_ = at::empty({largest, classes()}, options);
    if (wanted.hidden) grad_hidden_ = at::empty(input.hidden.sizes(), options);
    if (wanted.weight) grad_weight_.emplace(input.weight);
  }

  Result run() {
    Result result;
    for (std::int64_t begin = 0; begin < rows_; begin += size_) {
      const std::int64_t count = std::min(size_, rows_ - begin);
      result.sum += forward(begin, count);
      if (!std::isfinite(result.sum)) {
        // The micro-batch is lost; what its caller may see must still be defined.
        if (wanted_.hidden) grad_hidden_.narrow(0, begin, rows_ - begin).zero_();
        break;
      }
      if (wanted_.any()) backward(begin, count);
    }
    result.grad_hidden = grad_hidden_;
    if (grad_weight_) result.grad_weight = grad_weight_->take();
    return result;
  }

 private:
  static std::int64_t elements_of(const at::Tensor& hidden) {
    return hidden.scalar_type() == at::kDouble ? 8 : 4;
  }
  std::int64_t classes() const { return input_.weight.size(0); }

  double forward(std::int64_t begin, std::int64_t count) {
    at::Tensor logits = logits_.narrow(0, 0, count);
    at::Tensor grad = wanted_.any() ? grad_logits_.narrow(0, 0, count) : at::Tensor();
    gemm_out(logits, input_.hidden.narrow(0, begin, count), input_.compute.t());
    const at::Tensor& weights = input_.row_weights;
    return elementwise::cross_entropy_rows(
        logits, input_.targets.const_data_ptr<std::int64_t>() + begin, ignored_label,
        wanted_.any() ? &grad : nullptr,
        weights.defined() ? weights.const_data_ptr<float>() + begin : nullptr);
  }

  void backward(std::int64_t begin, std::int64_t count) {
    const at::Tensor grad = grad_logits_.narrow(0, 0, count);
    if (grad_weight_) grad_weight_->add(grad, input_.hidden.narrow(0, begin, count));
    if (!wanted_.hidden) return;
    at::Tensor rows = grad_hidden_.narrow(0, begin, count);
    gemm_out(rows, grad, input_.compute);
  }

  const Input& input_;
  Wanted wanted_;
  std::int64_t rows_, size_;
  at::Tensor logits_, grad_logits_, grad_hidden_;
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
    return scalar_of(result.sum, hidden);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    expect_first_order("linear_cross_entropy");
    const variable_list saved = context->get_saved_variables();
    const double upstream = grads[0].item<double>();
    if (upstream == 1) return {saved[0], saved[1], at::Tensor()};
    if (context->needs_input_grad(1) && !saved[1].defined())
      throw usage_error("linear_cross_entropy",
                        "the gradient 1 for the sum it returned, where an open slot took part",
                        std::to_string(upstream),
                        "backward() on the sum itself: the mean is taken when the window closes");
    const auto scaled = [upstream](const at::Tensor& gradient) {
      return gradient.defined() ? gradient * upstream : gradient;
    };
    return {scaled(saved[0]), scaled(saved[1]), at::Tensor()};
  }
};

}  // namespace

Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& targets, LowPrecisionCopy& copy,
                          const at::Tensor& row_weights) {
  expect_arguments(hidden, weight, targets);
  expect_labels("linear_cross_entropy", targets, weight.size(0));
  const double total = label_weight(targets, row_weights);
  const Input input{
      .hidden = as_matrix(hidden.detach()),
      .weight = weight,
      .compute = copy.of(weight, hidden.scalar_type()),
      .targets = targets.cpu().contiguous(),
      .row_weights = row_weights.defined() ? row_weights.cpu().contiguous() : row_weights};
  if (at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad()))
    return {LinearCrossEntropy::apply(hidden, weight, input), total};
  const at::NoGradGuard no_grad;
  return {scalar_of(Chunks(input, {}).run().sum, hidden), total};
}

}  // namespace accrue::kernels
