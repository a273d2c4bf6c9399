#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "optim/elementwise_optimizer.h"

namespace accrue::optim {
namespace {

struct Coefficients {
  double l2, keep, step_size, second_correction;
};

class Adam final : public PassOptimizer<Adam> {
 public:
  Adam(std::vector<Trained> trained, const AdamOptions& options, const StateOptions& state)
      : PassOptimizer(std::move(trained), {{"exp_avg"}, {"exp_avg_sq", StateSign::not_negative}},
                      state),
        options_(options) {}

  template <class T>
  AdamPass<T> pass(const Update& update, const Range<T>& range) const {
    const Coefficients c = coefficients(update);
    return {.parameter = range.parameter,
            .gradient = range.gradient,
            .exp_avg = range.state[exp_avg],
            .exp_avg_sq = range.state[exp_avg_sq],
            .gradient_scale = static_cast<T>(update.gradient_scale),
            .l2 = static_cast<T>(c.l2),
            .keep = static_cast<T>(c.keep),
            .one_minus_beta1 = static_cast<T>(1 - options_.beta1),
            .beta2 = static_cast<T>(options_.beta2),
            .one_minus_beta2 = static_cast<T>(1 - options_.beta2),
            .step_size = static_cast<T>(c.step_size),
            .second_correction = static_cast<T>(c.second_correction),
            .eps = static_cast<T>(options_.eps)};
  }

  void set_second_moment(double beta2, double log_decay) override {
    options_.beta2 = beta2;
    log_decay_ = log_decay;
  }

 protected:
  void update_whole(WholeUpdate& whole) const override {
    const Coefficients c = coefficients(whole.update);
    const at::Tensor gradient = penalised_gradient(whole, c.l2);
    std::vector<at::Tensor>& state = whole.state;
    state[exp_avg].lerp_(gradient, 1 - options_.beta1);
    state[exp_avg_sq].mul_(options_.beta2).addcmul_(gradient, gradient, 1 - options_.beta2);
    const at::Tensor denominator =
        state[exp_avg_sq].sqrt().mul_(c.second_correction).add_(options_.eps);
    whole.parameter.mul_(c.keep).addcdiv_(state[exp_avg], denominator, -c.step_size);
  }

  /// By ATen's fused Adam, for the parameters of each learning rate and decay.
  void update_together(std::vector<WholeUpdate>& wholes) const override {
    std::map<std::pair<double, double>, std::vector<const WholeUpdate*>> groups;
    for (WholeUpdate& whole : wholes) {
      if (is_for_fused(whole))
        groups[{whole.update.lr, whole.update.weight_decay}].push_back(&whole);
      else
        update_whole(whole);
    }
    for (const auto& [settings, group] : groups) update_fused(group);
  }

 private:
  enum State : std::size_t { exp_avg, exp_avg_sq };

  /// ATen's fused Adam works on memory, whatever the strides, rounds its scalar arguments to fp32,
  /// and its bias correction uses one beta2 for all steps.
  bool is_for_fused(const WholeUpdate& whole) const {
    return !log_decay_ && whole.parameter.is_contiguous() && whole.gradient.is_contiguous() &&
           whole.parameter.scalar_type() == at::kFloat &&
           whole.gradient.scalar_type() == at::kFloat;
  }

  void update_fused(const std::vector<const WholeUpdate*>& wholes) const {
    const Update& update = wholes.front()->update;
    std::vector<at::Tensor> parameters, gradients, averages, squares;
    for (const WholeUpdate* whole : wholes) {
      parameters.push_back(whole->parameter);
      gradients.push_back(whole->gradient);
      averages.push_back(whole->state[exp_avg]);
      squares.push_back(whole->state[exp_avg_sq]);
    }
    const at::TensorOptions single = parameters.front().options().requires_grad(false);
    const std::vector<at::Tensor> steps(wholes.size(),
                                        at::full({}, static_cast<double>(update.step), single));
    // ATen divides gradients by their scale.
    std::optional<at::Tensor> scale;
    if (update.gradient_scale != 1) scale = at::full({}, 1 / update.gradient_scale, single);
    using Fused =
        void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                 at::TensorList, double, double, double, double, double, bool, bool,
                 const std::optional<at::Tensor>&, const std::optional<at::Tensor>&);
    const Fused adam = at::_fused_adam_, adamw = at::_fused_adamw_;
    const Fused step_all = options_.decoupled_decay ? adamw : adam;
    step_all(parameters, gradients, averages, squares, /*largest squares*/ {}, steps, update.lr,
             options_.beta1, options_.beta2, update.weight_decay, options_.eps, /*amsgrad=*/false,
             /*maximize=*/false, scale, /*found_inf=*/{});
    // ATen does not count changes of tensors in lists.
    for (const at::Tensor& parameter : parameters) torch::autograd::impl::bump_version(parameter);
  }

  Coefficients coefficients(const Update& update) const {
    const auto step = static_cast<double>(update.step);
    const double decay = update.weight_decay;
    return {.l2 = options_.decoupled_decay ? 0 : decay,
            .keep = options_.decoupled_decay ? 1 - update.lr * decay : 1,
            .step_size = update.lr / (1 - std::pow(options_.beta1, step)),
            .second_correction = 1 / std::sqrt(1 - second_moment_decayed(step))};
  }

  /// The factor that the decays of all steps leave of a second moment from before the first one.
  double second_moment_decayed(double step) const {
    return log_decay_ ? std::exp(*log_decay_ + std::log(options_.beta2))
                      : std::pow(options_.beta2, step);
  }

  AdamOptions options_;
  std::optional<double> log_decay_;  ///< set if beta2 changes
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const NamedParameters& parameters,
                                     std::vector<ParameterGroup> groups, const AdamOptions& options,
                                     const StateOptions& state) {
  require_option(options.beta1, 0, 1, "beta1");
  require_option(options.beta2, 0, 1, "beta2");
  require_eps(options.eps);
  return std::make_unique<Adam>(resolve_groups(parameters, groups), options, state);
}

}  // namespace accrue::optim
