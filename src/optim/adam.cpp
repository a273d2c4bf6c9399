#include <cmath>
#include <optional>

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
  void update_whole(const Update& update, UpdatedTensors& tensors,
                    std::vector<at::Tensor>& state) const override {
    const Coefficients c = coefficients(update);
    const at::Tensor gradient = penalised_gradient(update, tensors, c.l2);
    state[exp_avg].lerp_(gradient, 1 - options_.beta1);
    state[exp_avg_sq].mul_(options_.beta2).addcmul_(gradient, gradient, 1 - options_.beta2);
    const at::Tensor denominator =
        state[exp_avg_sq].sqrt().mul_(c.second_correction).add_(options_.eps);
    tensors.parameter.mul_(c.keep).addcdiv_(state[exp_avg], denominator, -c.step_size);
  }

 private:
  enum State : std::size_t { exp_avg, exp_avg_sq };

  Coefficients coefficients(const Update& update) const {
    const auto step = static_cast<double>(update.step);
    const double decay = update.weight_decay;
    return {.l2 = options_.decoupled_decay ? 0 : decay,
            .keep = options_.decoupled_decay ? 1 - update.lr * decay : 1,
            .step_size = update.lr / (1 - std::pow(options_.beta1, step)),
            .second_correction = 1 / std::sqrt(1 - second_moment_decayed(step))};
  }

  /// What the decays of all steps leave of a second moment from before the first one.
  double second_moment_decayed(double step) const {
    return log_decay_ ? std::exp(*log_decay_ + std::log(options_.beta2))
                      : std::pow(options_.beta2, step);
  }

  AdamOptions options_;
  std::optional<double> log_decay_;  ///< set where beta2 changes
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
