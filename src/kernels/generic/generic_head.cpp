#include "kernels/generic/generic_head.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/aten_element.h"
#include "kernels/cross_entropy/head_gradients.h"
#include "kernels/gemm/gemm.h"
#include "kernels/generic/tensors.h"

namespace accrue::kernels::generic {
namespace {

/// The memory of a chunk's logits, their logarithmic softmax and its gradient: on a device enough
/// rows that reading the weight and adding to its gradient once per chunk is a small part.
constexpr std::int64_t device_bytes = 2'147'483'648, host_bytes = 64'000'000;

/// The rows' labels, on the device of the logits. Tensors that are not needed are undefined.
struct RowLabels {
  at::Tensor targets;  ///< [n, 1], 0 in rows that do not count
  at::Tensor ignored;  ///< [n, 1], true in rows that do not count; undefined if all do
  at::Tensor weights;  ///< [n, 1]: the factors of the rows' losses
  at::Tensor factors;  ///< [n, 1]: the factors of their gradients, including the weights
};

class GenericHead {
 public:
  GenericHead(const Backend& backend, const HeadInput& input, WantedGradients wanted)
      : backend_(backend),
        input_(input),
        wanted_(wanted),
        rows_(input.hidden.size(0)),
        classes_(input.weight.size(0)),
        device_(input.hidden.device()),
        wide_(accumulation_dtype(input.hidden.scalar_type())),
        size_(std::clamp<std::int64_t>(input.chunk_rows > 0 ? input.chunk_rows : most_rows(), 1,
                                       std::max<std::int64_t>(1, rows_))) {
    const at::TensorOptions narrow = input.hidden.options();
    logits_ = at::empty({size_, classes_}, narrow.dtype(wide_));
    fused_ = is_plain_loss() && backend.fuses_cross_entropy(logits_);
    if (!fused_) logarithms_ = at::empty_like(logits_);
    if (wanted.any() && is_mixed()) gradient_ = at::empty({size_, classes_}, narrow);
    if (wanted.hidden)
      grad_hidden_ =
          input.overwrite_hidden ? input.hidden : at::empty(input.hidden.sizes(), narrow);
    if (wanted.weight) grad_weight_.emplace(input.weight);
    if (wanted.bias) grad_bias_.emplace(input.bias);
    sum_ = at::zeros({}, narrow.dtype(at::kDouble));
  }

  HeadResult run() {
    bool is_whole = true;
    for (std::int64_t begin = 0; begin < rows_ && is_whole; begin += size_) {
      const std::int64_t count = std::min(size_, rows_ - begin);
      const RowLabels labels = labels_from(begin, count);
      fused_ ? run_fused(begin, count, labels) : forward(begin, count, labels);
      is_whole = !device_.is_cpu() || is_finite();
      if (is_whole && wanted_.any()) backward(begin, count, labels);
      if (!is_whole && wanted_.hidden) grad_hidden_.narrow(0, begin, rows_ - begin).zero_();
    }
    HeadResult result{.sum = sum_.to(wide_), .grad_hidden = grad_hidden_};
    if (grad_weight_) result.grad_weight = grad_weight_->take(is_whole);
    if (grad_bias_) result.grad_bias = grad_bias_->take(is_whole);
    return result;
  }

 private:
  bool is_mixed() const { return input_.hidden.scalar_type() != wide_; }
  bool is_finite() const { return std::isfinite(sum_.to(wide_).item<double>()); }

  std::int64_t most_rows() const {
    const auto wide = static_cast<std::int64_t>(c10::elementSize(wide_));
    const std::int64_t row =
        classes_ * (2 * wide + (is_mixed() ? input_.hidden.element_size() : 0));
    return (device_.is_cpu() ? host_bytes : device_bytes) / std::max<std::int64_t>(1, row);
  }

  bool is_plain_loss() const {
    const CrossEntropyOptions& loss = input_.loss;
    return loss.label_smoothing == 0 && loss.z_loss == 0 && loss.soft_cap == 0;
  }
  at::Tensor gradient_memory(std::int64_t count) const {
    return (is_mixed() ? gradient_ : logits_).narrow(0, 0, count);
  }

  /// Labels in host memory are read there, so that nothing waits for the device.
  RowLabels labels_from(std::int64_t begin, std::int64_t count) const {
    const auto column = [&](const at::Tensor& of_rows, at::ScalarType dtype) {
      return copied_to(of_rows.to(dtype), device_).view({count, 1});
    };
    const at::Tensor targets = input_.targets.view({-1}).narrow(0, begin, count);
    at::Tensor ignored = targets.eq(input_.loss.ignored);
    at::Tensor factors;
    RowLabels labels;
    if (const at::Tensor& weights = input_.loss.row_weights; weights.defined()) {
      const at::Tensor own = weights.view({-1}).narrow(0, begin, count);
      ignored = ignored.logical_or(own.eq(0));
      labels.weights = column(own, wide_);
      factors = own.to(at::kDouble);
    }
    if (input_.row_factors.defined()) {
      const at::Tensor own = input_.row_factors.view({-1}).narrow(0, begin, count);
      factors = factors.defined() ? factors * own : own;
    }
    if (factors.defined())
      labels.factors = column(factors * input_.gradient_scale, wide_);
    else if (input_.gradient_scale != 1)
      labels.factors = at::full({count, 1}, input_.gradient_scale, logits_.options());
    if (!targets.is_cpu() || ignored.any().item<bool>())
      labels.ignored = column(ignored, at::kBool);
    labels.targets = column(targets.masked_fill(ignored, 0), at::kLong);
    return labels;
  }

  void fill_logits(std::int64_t begin, at::Tensor& logits) const {
    gemm_out(logits, input_.hidden.narrow(0, begin, logits.size(0)), input_.compute.t());
    if (input_.bias.defined()) logits.add_(input_.bias.detach());
  }

  void take_losses(std::int64_t begin, at::Tensor losses, const RowLabels& labels) {
    if (labels.weights.defined()) losses.mul_(labels.weights);
    if (labels.ignored.defined()) losses.masked_fill_(labels.ignored, 0);
    sum_.add_(losses.sum(at::kDouble));
    if (input_.row_losses.defined())
      input_.row_losses.narrow(0, begin, losses.size(0)).copy_(losses.view({-1}));
  }

  /// One kernel after the product: a row's losses, and its logits' gradient if it is needed.
  void run_fused(std::int64_t begin, std::int64_t count, const RowLabels& labels) {
    at::Tensor logits = logits_.narrow(0, 0, count);
    fill_logits(begin, logits);
    const at::Tensor targets =
        labels.ignored.defined() ? labels.targets.masked_fill(labels.ignored, -1) : labels.targets;
    take_losses(begin,
                backend_
                    .fused_cross_entropy(logits, targets, labels.factors,
                                         wanted_.any() ? gradient_memory(count) : at::Tensor())
                    .view({count, 1}),
                labels);
  }

  /// Fills the logits and their logarithmic softmax, and adds the rows' losses to the sum.
  void forward(std::int64_t begin, std::int64_t count, const RowLabels& labels) {
    at::Tensor logits = logits_.narrow(0, 0, count), logarithms = logarithms_.narrow(0, 0, count);
    fill_logits(begin, logits);
    if (const double cap = input_.loss.soft_cap; cap != 0) logits.div_(cap).tanh_().mul_(cap);
    // Rows that do not count must have no effect, whatever their values.
    if (labels.ignored.defined()) logits.masked_fill_(labels.ignored, 0);
    at::_log_softmax_out(logarithms, logits, 1, /*half_to_float=*/false);
    picked_ = logarithms.gather(1, labels.targets);
    at::Tensor losses = picked_.neg();
    if (const double e = input_.loss.label_smoothing; e != 0)
      losses = losses.mul_(1 - e).sub_(logarithms.mean(1, /*keepdim=*/true), e);
    if (input_.loss.z_loss != 0) {
      log_sums_ = logits.gather(1, labels.targets).sub_(picked_);
      losses.add_(log_sums_.square(), input_.loss.z_loss);
    }
    take_losses(begin, losses, labels);
  }

  /// Computes the gradient of a chunk's logits, and adds the gradients that are needed.
  void backward(std::int64_t begin, std::int64_t count, const RowLabels& labels) {
    const at::Tensor hidden = input_.hidden.narrow(0, begin, count);
    const at::Tensor gradient = fused_ ? gradient_memory(count) : logits_gradient(count, labels);
    if (grad_weight_) grad_weight_->add(0, gradient, hidden);
    if (grad_bias_) grad_bias_->add(0, gradient);
    if (!wanted_.hidden) return;
    at::Tensor grad_hidden = grad_hidden_.narrow(0, begin, count);
    gemm_out(grad_hidden, gradient, input_.compute);
  }

  /// softmax * (1 + 2 z logsumexp) - e / V, less 1 - e at the target, all times the rows' factors.
  at::Tensor logits_gradient(std::int64_t count, const RowLabels& labels) {
    const CrossEntropyOptions& loss = input_.loss;
    at::Tensor softmax = logarithms_.narrow(0, 0, count);
    at::Tensor at_target = picked_.exp();
    const bool is_plain = is_plain_loss() && !labels.factors.defined() && !labels.ignored.defined();
    if (is_plain) {
      at::Tensor out = is_mixed() ? gradient_.narrow(0, 0, count) : softmax;
      at::exp_out(out, softmax);
      return out.scatter_(1, labels.targets, at_target.sub_(1).to(out.scalar_type()));
    }
    softmax.exp_();
    if (loss.z_loss != 0) {
      const at::Tensor pull = (2 * loss.z_loss * log_sums_).add_(1);
      softmax.mul_(pull);
      at_target.mul_(pull);
    }
    const double everywhere = loss.label_smoothing / static_cast<double>(classes_);
    if (everywhere != 0) softmax.sub_(everywhere);
    softmax.scatter_(1, labels.targets, at_target.sub_(1 - loss.label_smoothing).sub_(everywhere));
    if (loss.soft_cap != 0)
      softmax.mul_(1 - (logits_.narrow(0, 0, count) / loss.soft_cap).square_());
    if (labels.factors.defined()) softmax.mul_(labels.factors);
    if (labels.ignored.defined()) softmax.masked_fill_(labels.ignored, 0);
    return is_mixed() ? gradient_.narrow(0, 0, count).copy_(softmax) : softmax;
  }

  const Backend& backend_;
  const HeadInput& input_;
  WantedGradients wanted_;
  std::int64_t rows_, classes_;
  at::Device device_;
  at::ScalarType wide_;
  std::int64_t size_;
  bool fused_ = false;
  at::Tensor logits_, logarithms_, gradient_, grad_hidden_, sum_;
  at::Tensor picked_, log_sums_;  ///< of the chunk, by row: log p[target], and logsumexp
  std::optional<HeadWeightGradient> grad_weight_;
  std::optional<HeadBiasGradient> grad_bias_;
};

}  // namespace

HeadResult run_head_chunks(const Backend& backend, const HeadInput& input, WantedGradients wanted) {
  return GenericHead(backend, input, wanted).run();
}

}  // namespace accrue::kernels::generic
