#include "kernels/cross_entropy/head_chunks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "accrue/core/error.h"
#include "kernels/aten_element.h"
#include "kernels/backend.h"
#include "kernels/cpu_passes.h"
#include "kernels/cross_entropy/head_gradients.h"
#include "kernels/cross_entropy/online_cross_entropy.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/linear_forward.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

/// The memory of the loss besides its arguments, unless a chunk would be less than
/// `least_chunk_bytes`, or than `least_class_bytes` per class, which are some hundred rows: each
/// chunk reads the whole weight and adds to its whole gradient, so fewer rows would not pay off.
/// The first is a last-level cache; all were measured (docs/notes/vocabulary_loss.md).
constexpr std::int64_t working_bytes = 32'000'000, least_chunk_bytes = 19'400'000,
                       least_class_bytes = 386;

/// Classes whose two products of the backward pass follow each other: their part of the logits'
/// gradient is then still in a core's cache. All classes at once are 7% slower, tiles of 512 and
/// 1,024 about as fast.
constexpr std::int64_t tile_classes = 768;

/// Classes whose logits are computed at once if they need not be kept: whole tiles.
constexpr std::int64_t block_classes = 5 * tile_classes;

/// Makes chunks about equal, so that the last one is not a small remainder.
std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t most) {
  const std::int64_t chunks = (rows + most - 1) / most;
  return chunks == 0 ? 1 : (rows + chunks - 1) / chunks;
}

/// The loss of one chunk after another, with its gradients while its exponentials are in memory.
class HeadChunks {
 public:
  HeadChunks(const HeadInput& input, WantedGradients wanted)
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
    if (wanted.bias) grad_bias_.emplace(input.bias);
  }

  HeadResult run() {
    HeadResult result;
    double sum = 0;
    for (std::int64_t begin = 0; begin < rows_; begin += size_) {
      const std::int64_t count = std::min(size_, rows_ - begin);
      OnlineCrossEntropy loss(labels_from(begin), count, classes_, block_);
      sum += forward(begin, count, loss);
      if (!is_finite(sum)) {
        // The micro-batch is lost; tensors that its caller may see must still be defined.
        if (wanted_.hidden) grad_hidden_.narrow(0, begin, rows_ - begin).zero_();
        break;
      }
      if (wanted_.any()) backward(begin, count, loss);
    }
    result.grad_hidden = grad_hidden_;
    if (grad_weight_) result.grad_weight = grad_weight_->take(is_finite(sum));
    if (grad_bias_) result.grad_bias = grad_bias_->take(is_finite(sum));
    // at::full would throw for a sum beyond fp32, which must become infinite: its micro-batch is
    // quarantined.
    result.sum = at::scalar_tensor(sum, at::kDouble).to(logits_.scalar_type());
    return result;
  }

 private:
  /// Whether exponentials overwrite the logits, which are then those of all classes.
  bool in_place() const {
    return wanted_.any() && input_.hidden.scalar_type() == logits_options_.dtype();
  }
  /// Whether a chunk's gradient of `hidden` is summed in other memory than it is kept in: bf16 is
  /// rounded once, not tile by tile; hidden's own rows are read until the last tile.
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
        1, std::max({least_chunk_bytes, least_class_bytes * classes_, left}) /
               std::max<std::int64_t>(1, row_bytes));
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
            .gradient_scale = input_.gradient_scale,
            .gradient_factors = input_.row_factors.defined()
                                    ? input_.row_factors.const_data_ptr<double>() + row
                                    : nullptr};
  }

  double forward(std::int64_t begin, std::int64_t count, OnlineCrossEntropy& loss) {
    const at::Tensor hidden = input_.hidden.narrow(0, begin, count);
    for (std::int64_t first = 0; first < classes_; first += block_) {
      const std::int64_t size = std::min(block_, classes_ - first);
      at::Tensor logits = logits_.narrow(0, 0, count).narrow(1, 0, size);
      gemm_out(logits, hidden, input_.compute.narrow(0, first, size).t());
      if (input_.bias.defined()) logits.add_(input_.bias.detach().narrow(0, first, size));
      at::Tensor exponentials = exponentials_of(count, first, size);
      loss.add(first, logits, exponentials.defined() ? &exponentials : nullptr);
    }
    const at::Tensor& losses = input_.row_losses;
    return loss.finish(losses.defined() ? losses.mutable_data_ptr<double>() + begin : nullptr);
  }

  void backward(std::int64_t begin, std::int64_t count, const OnlineCrossEntropy& loss) {
    const at::Tensor hidden = input_.hidden.narrow(0, begin, count);
    at::Tensor grad_hidden = wanted_.hidden ? hidden_sums(begin, count) : at::Tensor();
    for (std::int64_t first = 0; first < classes_; first += tile_classes) {
      const std::int64_t size = std::min(tile_classes, classes_ - first);
      at::Tensor tile = exponentials_of(count, first, size);
      loss.to_gradient(first, tile);
      if (grad_weight_) grad_weight_->add(first, tile, hidden);
      if (grad_bias_) grad_bias_->add(first, tile);
      if (wanted_.hidden)
        gemm_out(grad_hidden, tile, input_.compute.narrow(0, first, size),
                 /*accumulate=*/first > 0);
    }
    // Autograd sees this copy: it counts as a change of the tensor from which `hidden` came.
    if (sums_.defined()) grad_hidden_.narrow(0, begin, count).copy_(grad_hidden);
  }

  /// The memory of a block's exponentials, undefined if no gradient is wanted.
  at::Tensor exponentials_of(std::int64_t count, std::int64_t first, std::int64_t size) const {
    if (!exponentials_.defined()) return {};
    return exponentials_.narrow(0, 0, count).narrow(1, first, size);
  }

  /// The memory in which the gradient of a chunk's hidden rows is summed over the tiles.
  at::Tensor hidden_sums(std::int64_t begin, std::int64_t count) {
    return sums_.defined() ? sums_.narrow(0, 0, count) : grad_hidden_.narrow(0, begin, count);
  }

  const HeadInput& input_;
  WantedGradients wanted_;
  std::int64_t rows_, classes_;
  at::TensorOptions logits_options_;
  std::int64_t block_, size_;
  at::Tensor logits_, exponentials_, grad_hidden_, sums_;
  std::optional<HeadWeightGradient> grad_weight_;
  std::optional<HeadBiasGradient> grad_bias_;
};

}  // namespace

HeadResult run_head_chunks(const HeadInput& input, WantedGradients wanted) {
  return backend_of(input.hidden).run_head_chunks(input, wanted);
}

HeadResult cpu::run_head_chunks(const HeadInput& input, WantedGradients wanted) {
  return HeadChunks(input, wanted).run();
}

void expect_head_arguments(std::string_view operation, const at::Tensor& hidden,
                           const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& targets) {
  expect_linear(operation, hidden, weight, bias);
  if (targets.scalar_type() != at::kLong || targets.dim() != hidden.dim() - 1 ||
      targets.sizes() != hidden.sizes().slice(0, static_cast<std::size_t>(targets.dim())))
    throw usage_error(operation, "hidden [..., C], weight [V, C] and int64 targets [...]",
                      "hidden " + text_of(hidden) + ", weight " + text_of(weight) + ", targets " +
                          text_of(targets),
                      "one target for each row of hidden");
}

}  // namespace accrue::kernels
