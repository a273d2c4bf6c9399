#include "accrue/kernels/cross_entropy.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>
#include <optional>

#include "accrue/core/error.h"
#include "accrue/kernels/grad_slot.h"
#include "kernels/aten_element.h"
#include "kernels/cross_entropy/labels.h"
#include "kernels/cross_entropy/online_cross_entropy.h"
#include "kernels/first_order.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/linear_forward.h"
#include "kernels/gemm/parameter_gradient.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What the loss may hold beside its arguments, unless that leaves a chunk less than
/// `least_chunk_bytes`: each chunk reads the whole weight and adds to its whole gradient, which few
/// rows would not pay for. The former is a last-level cache; both were measured
/// (docs/notes/vocabulary_loss.md).
constexpr std::int64_t working_bytes = 32'000'000, least_chunk_bytes = 19'400'000;

/// Classes whose two products of the backward pass follow each other: their part of the logits'
/// gradient is then still in a core's cache. All classes at once are 7% slower, tiles of 512 and
/// 1,024 about as fast.
constexpr std::int64_t tile_classes = 768;

/// Classes whose logits are made at once where they need not stay: whole tiles.
constexpr std::int64_t block_classes = 5 * tile_classes;

/// Makes chunks about equal, so that the last one is no remnant.
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

  /// Adds the gradient of the classes from `first` on by one chunk's rows. To be called for every
  /// class of a chunk before the next chunk.
  void add(std::int64_t first, const at::Tensor& grad_logits, const at::Tensor& hidden) {
    if (slot_ != nullptr && !any_) sum_ = slot_->contribute();
    any_ = true;
    const std::int64_t classes = grad_logits.size(1);
    at::Tensor rows = sum_.into.narrow(0, first, classes);
    gemm_out(rows, grad_logits.t(), hidden, sum_.add);
    if (first + classes == sum_.into.size(0)) sum_.add = true;
  }
  /// To be called after the last chunk. Returns autograd's gradient, undefined where a slot has it.
  /// A gradient that is not `whole` is no contribution: a slot is left unfinished, to be undone.
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
  CrossEntropyOptions loss;
  double gradient_scale = 1;  // rounded to the sum's precision
  std::int64_t chunk_rows = 0;
  bool overwrite_hidden = false;
};

struct Result {
  double sum = 0;
  at::Tensor grad_hidden, grad_weight;  // where wanted
};

/// The loss of one chunk after another, with its gradients while its exponentials are at hand.
class Chunks {
 public:
  Chunks(const Input& input, Wanted wanted)
      : input_(input),
        wanted_(wanted),
        rows_(input.hidden.size(0)),
        classes_(input.weight.size(0)),
        logits_options_(
            input.hidden.options().dtype(accumulation_dtype(input.hidden.scalar_type()))),
        block_(
            std::max<std::int64_t>(1, in_place() ? classes_ : std::min(classes_, block_classes))),
        size_(rows_per_chunk(rows_, input.chunk_rows > 0 ? input.chunk_rows : most_rows())) {
    const std::int64_t rows = std::min(size_, rows_), channels = input.hidden.size(1);
    logits_ = at::empty({rows, block_}, logits_options_);
    if (wanted.any())
      exponentials_ = in_place() ? logits_ : at::empty({rows, classes_}, input.hidden.options());
    if (wanted.hidden)
      grad_hidden_ = input.overwrite_hidden
                         ? input.hidden
                         : at::empty(input.hidden.sizes(), input.hidden.options());
    if (has_sums()) sums_ = at::empty({rows, channels}, logits_options_);
    if (wanted.weight) grad_weight_.emplace(input.weight);
  }

  Result run() {
    Result result;
    for (std::int64_t begin = 0; begin < rows_; begin += size_) {
      const std::int64_t count = std::min(size_, rows_ - begin);
      OnlineCrossEntropy loss(labels_from(begin), count, classes_, block_);
      result.sum += forward(begin, count, loss);
      if (!is_finite(result.sum)) {
        // The micro-batch is lost; what its caller may see must still be defined.
        if (wanted_.hidden) grad_hidden_.narrow(0, begin, rows_ - begin).zero_();
        break;
      }
      if (wanted_.any()) backward(begin, count, loss);
    }
    result.grad_hidden = grad_hidden_;
    if (grad_weight_) result.grad_weight = grad_weight_->take(is_finite(result.sum));
    return result;
  }

 private:
  /// Whether exponentials take the memory of the logits, which are then those of all classes.
  bool in_place() const {
    return wanted_.any() && input_.hidden.scalar_type() == logits_options_.dtype();
  }
  /// Whether a chunk's gradient of `hidden` is summed elsewhere than it stays: bf16 is rounded
  /// once, not tile by tile; hidden's own rows are read until the last tile.
  bool has_sums() const {
    return wanted_.hidden &&
           (input_.overwrite_hidden || input_.hidden.scalar_type() != logits_options_.dtype());
  }

  std::int64_t most_rows() const {
    const auto wide = static_cast<std::int64_t>(logits_options_.dtype().itemsize());
    const std::int64_t narrow = input_.hidden.element_size();
    std::int64_t row_bytes = block_ * wide;
    if (wanted_.any() && !in_place()) row_bytes += classes_ * narrow;
    if (has_sums()) row_bytes += input_.hidden.size(1) * wide;
    const bool own = wanted_.hidden && !input_.overwrite_hidden;
    const bool widens = input_.hidden.scalar_type() == at::kBFloat16;
    const std::int64_t left = working_bytes - (own ? input_.hidden.numel() * narrow : 0) -
                              (widens ? bf16_scratch_bytes() : 0);
    return std::max<std::int64_t>(
        1, std::max(least_chunk_bytes, left) / std::max<std::int64_t>(1, row_bytes));
  }

  /// Whether the sum is finite in the precision in which it is returned.
  bool is_finite(double sum) const {
    return std::abs(sum) <= (logits_.scalar_type() == at::kDouble
                                 ? std::numeric_limits<double>::max()
                                 : std::numeric_limits<float>::max());
  }

  CrossEntropyRows labels_from(std::int64_t row) const {
    const at::Tensor& weights = input_.loss.row_weights;
    return {.targets = input_.targets.const_data_ptr<std::int64_t>() + row,
            .row_weights = weights.defined() ? weights.const_data_ptr<float>() + row : nullptr,
            .ignored = input_.loss.ignored,
            .label_smoothing = input_.loss.label_smoothing,
            .z_loss = input_.loss.z_loss,
            .soft_cap = input_.loss.soft_cap,
            .gradient_scale = input_.gradient_scale};
  }

  double forward(std::int64_t begin, std::int64_t count, OnlineCrossEntropy& loss) {
    const at::Tensor hidden = input_.hidden.narrow(0, begin, count);
    for (std::int64_t first = 0; first < classes_; first += block_) {
      const std::int64_t size = std::min(block_, classes_ - first);
      at::Tensor logits = logits_.narrow(0, 0, count).narrow(1, 0, size);
      gemm_out(logits, hidden, input_.compute.narrow(0, first, size).t());
      at::Tensor exponentials = exponentials_of(count, first, size);
      loss.add(first, logits, exponentials.defined() ? &exponentials : nullptr);
    }
    return loss.finish();
  }

  void backward(std::int64_t begin, std::int64_t count, const OnlineCrossEntropy& loss) {
    const at::Tensor hidden = input_.hidden.narrow(0, begin, count);
    at::Tensor grad_hidden = wanted_.hidden ? hidden_sums(begin, count) : at::Tensor();
    for (std::int64_t first = 0; first < classes_; first += tile_classes) {
      const std::int64_t size = std::min(tile_classes, classes_ - first);
      at::Tensor tile = exponentials_of(count, first, size);
      loss.to_gradient(first, tile);
      if (grad_weight_) grad_weight_->add(first, tile, hidden);
      if (wanted_.hidden)
        gemm_out(grad_hidden, tile, input_.compute.narrow(0, first, size),
                 /*accumulate=*/first > 0);
    }
    // Autograd sees this copy: it counts as a change of the tensor that `hidden` came from.
    if (sums_.defined()) grad_hidden_.narrow(0, begin, count).copy_(grad_hidden);
  }

  /// The memory of a block's exponentials, undefined where no gradient is wanted.
  at::Tensor exponentials_of(std::int64_t count, std::int64_t first, std::int64_t size) const {
    if (!exponentials_.defined()) return {};
    return exponentials_.narrow(0, 0, count).narrow(1, first, size);
  }

  /// Where the gradient of a chunk's hidden rows is summed over the tiles.
  at::Tensor hidden_sums(std::int64_t begin, std::int64_t count) {
    return sums_.defined() ? sums_.narrow(0, 0, count) : grad_hidden_.narrow(0, begin, count);
  }

  const Input& input_;
  Wanted wanted_;
  std::int64_t rows_, classes_;
  at::TensorOptions logits_options_;
  std::int64_t block_, size_;
  at::Tensor logits_, exponentials_, grad_hidden_, sums_;
  std::optional<WeightGradient> grad_weight_;
};

at::Tensor scalar_of(double sum, const at::Tensor& hidden) {
  // at::full would throw for a sum beyond fp32, which is to be an infinity: its micro-batch is
  // quarantined.
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

/// gradient_scale rounded to the sum's precision.
double rounded_scale(const at::Tensor& hidden, const LinearCrossEntropyOptions& options) {
  if (hidden.scalar_type() == at::kDouble) return options.gradient_scale;
  return static_cast<float>(options.gradient_scale);
}

void expect_options(const at::Tensor& hidden, const LinearCrossEntropyOptions& options) {
  expect_terms("linear_cross_entropy", options.loss);
  const double scale = rounded_scale(hidden, options);
  if (!std::isfinite(scale) || scale == 0)
    throw usage_error("linear_cross_entropy",
                      "a gradient_scale that is finite and not 0 in the precision of the sum",
                      c10::str(options.gradient_scale),
                      "a scale nearer to 1, or not running a loss whose gradient is not wanted");
  if (options.chunk_rows < 0)
    throw usage_error("linear_cross_entropy", "chunk_rows of 0 or more",
                      std::to_string(options.chunk_rows), "0, which chooses");
}

Input input_of(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
               PreparedWeight& prepared, const LinearCrossEntropyOptions& options) {
  CrossEntropyOptions loss = options.loss;
  if (loss.row_weights.defined()) loss.row_weights = loss.row_weights.cpu().contiguous();
  return {.hidden = as_matrix(hidden.detach()),
          .weight = weight,
          .compute = prepared.copy(weight, hidden.scalar_type()),
          .targets = targets.cpu().contiguous(),
          .loss = loss,
          .gradient_scale = rounded_scale(hidden, options),
          .chunk_rows = options.chunk_rows,
          .overwrite_hidden = options.overwrite_hidden && hidden.is_contiguous()};
}

}  // namespace

Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& targets, PreparedWeight& prepared,
                          const LinearCrossEntropyOptions& options) {
  expect_arguments(hidden, weight, targets);
  expect_options(hidden, options);
  expect_labels("linear_cross_entropy", targets, weight.size(0), options.loss.ignored);
  const double total = label_weight(targets, options.loss.row_weights, options.loss.ignored);
  const Input input = input_of(hidden, weight, targets, prepared, options);
  if (at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad()))
    return {LinearCrossEntropy::apply(hidden, weight, input), total};
  const at::NoGradGuard no_grad;
  return {scalar_of(Chunks(input, {}).run().sum, hidden), total};
}

}  // namespace accrue::kernels
