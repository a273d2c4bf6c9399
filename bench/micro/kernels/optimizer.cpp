// The gradient's norm, and AdamW with clipping: the end of a window, over all parameters.

#include "accrue/optim/optimizer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "accrue/accum/window.h"
#include "accrue/models/gpt2.h"
#include "comparison.h"

namespace accrue::bench {
namespace {

constexpr double lr = 1e-3, beta1 = 0.9, beta2 = 0.95, weight_decay = 0.1, eps = 1e-8;
constexpr double max_norm = 1;
/// ATen sums the squares of a tensor in fp32: 0.3% are lost over the 39 M of a vocabulary's table.
constexpr double plain_norm_error = 1e-2;
constexpr double norm_flops = 2, adamw_flops = 15;  ///< a parameter

models::Gpt2 make_model(const Workload& workload) {
  return models::Gpt2({.layers = workload.layers,
                       .heads = workload.heads,
                       .width = workload.width,
                       .context = workload.context,
                       .vocab = workload.vocabulary},
                      models::Initialisation::zeros);
}

/// A closed window's gradient, over and over: the sums stay what they are.
class Windows {
 public:
  explicit Windows(const NamedParameters& parameters)
      : buffer_(std::make_shared<accum::GradientBuffer>(parameters)), window_(buffer_) {
    for (const auto& entry : buffer_->entries()) entry.slot->main.normal_(0, 1e-3);
  }
  accum::MeanGradient mean() {
    window_.open(index_++);
    window_.begin({});
    for (const auto& entry : buffer_->entries()) {
      { const auto to = entry.slot->contribute(); }
      entry.slot->done();
    }
    window_.commit(0, 1);
    return std::move(window_.close(/*check_finite=*/false)).value();
  }
  const accum::GradientBuffer& buffer() const { return *buffer_; }

 private:
  std::shared_ptr<accum::GradientBuffer> buffer_;
  accum::Window window_;
  std::int64_t index_ = 0;
};

at::Tensor global_norm(at::TensorList gradients) {
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)), 2);
}

struct OurTraining {
  explicit OurTraining(const Workload& workload)
      : model(make_model(workload)),
        windows(model.parameters()),
        optimizer(optim::make_adam(
            model.parameters(),
            optim::default_groups(model.parameters(), weight_decay, /*decay_all=*/true),
            {.beta1 = beta1, .beta2 = beta2, .eps = eps})) {
    const at::NoGradGuard no_grad;
    for (const auto& entry : windows.buffer().entries())
      at::Tensor(entry.parameter).normal_(0, 0.02);
  }
  models::Gpt2 model;
  Windows windows;
  std::unique_ptr<optim::Optimizer> optimizer;
};

/// What PyTorch's fused AdamW keeps, of the same parameters and gradients.
struct PlainTraining {
  explicit PlainTraining(const accum::GradientBuffer& buffer) {
    for (const auto& entry : buffer.entries()) {
      parameters.push_back(entry.parameter.detach().clone());
      gradients.push_back(entry.slot->main.clone());
      exp_avgs.push_back(at::zeros_like(parameters.back()));
      exp_avg_sqs.push_back(at::zeros_like(parameters.back()));
      steps.push_back(at::zeros({}));
    }
  }
  void step() {
    const at::Tensor coefficient = at::clamp_max(max_norm / (global_norm(gradients) + 1e-6), 1);
    at::_foreach_mul_(gradients, coefficient);
    at::_foreach_add_(steps, 1);
    at::_fused_adamw_(parameters, gradients, exp_avgs, exp_avg_sqs, {}, steps, lr, beta1, beta2,
                      weight_decay, eps, /*amsgrad=*/false, /*maximize=*/false);
  }
  std::vector<at::Tensor> parameters, gradients, exp_avgs, exp_avg_sqs, steps;
};

double parameters_of(const accum::GradientBuffer& buffer) {
  double count = 0;
  for (const auto& entry : buffer.entries()) count += static_cast<double>(entry.parameter.numel());
  return count;
}

std::vector<at::Tensor> parameter_values(const accum::GradientBuffer& buffer) {
  std::vector<at::Tensor> values;
  for (const auto& entry : buffer.entries()) values.push_back(entry.parameter.detach());
  return values;
}

Comparison gradient_norm(const Workload& workload) {
  const auto ours = std::make_shared<OurTraining>(workload);
  const auto gradient = std::make_shared<accum::MeanGradient>(ours->windows.mean());
  std::vector<at::Tensor> sums;
  for (const auto& entry : ours->windows.buffer().entries()) sums.push_back(entry.slot->main);
  const double parameters = parameters_of(ours->windows.buffer());
  return {.accrue =
              [ours, gradient] {
                gradient->changed();
                return std::vector{at::scalar_tensor(gradient->norm())};
              },
          .aten = [sums] { return std::vector{global_norm(sums)}; },
          .flops = norm_flops * parameters,
          .bytes = sizeof(float) * parameters,
          .tolerance = plain_norm_error};
}

/// The gradient is read for its norm, then with parameters and moments, which are written.
Comparison clipped_adamw(const Workload& workload) {
  const auto ours = std::make_shared<OurTraining>(workload);
  const auto theirs = std::make_shared<PlainTraining>(ours->windows.buffer());
  const double parameters = parameters_of(ours->windows.buffer());
  return {.accrue =
              [ours] {
                accum::MeanGradient gradient = ours->windows.mean();
                gradient.clip(max_norm);
                ours->optimizer->step(std::move(gradient), lr);
                return parameter_values(ours->windows.buffer());
              },
          .aten =
              [theirs] {
                theirs->step();
                return theirs->parameters;
              },
          .flops = (norm_flops + adamw_flops) * parameters,
          .bytes = 8 * sizeof(float) * parameters};
}

}  // namespace

void add_optimizer() {
  for (const Workload& workload : workloads) {
    add_comparison({"gradient_norm", workload, at::kFloat},
                   [=] { return gradient_norm(workload); });
    add_comparison({"clipped_adamw_step", workload, at::kFloat},
                   [=] { return clipped_adamw(workload); });
  }
}

}  // namespace accrue::bench
