#include <ATen/ATen.h>

#include <cmath>

#include "accrue/core/error.h"
#include "optim/elementwise_optimizer.h"
#include "optim/folding_optimizer.h"

namespace accrue::optim {
namespace {

class AdamA final : public FoldingPasses<AdamA> {
 public:
  AdamA(std::vector<Trained> trained, const AdamOptions& options, const StateOptions& state)
      : FoldingPasses("AdamA", std::move(trained),
                      {{"exp_avg"}, {"exp_avg_sq", StateSign::not_negative}}, state,
                      /*takes_parts=*/false),
        options_(options) {}

  template <class T>
  void fold(const FoldUpdate& update, const FoldRange<T>& range, std::size_t count) const {
    const double scale = update.gradient_scale;
    run_pass(MomentFold<T>{.gradient = range.gradient,
                           .exp_avg = range.state[exp_avg],
                           .exp_avg_sq = range.state[exp_avg_sq],
                           .keep1 = kept<T>(update, options_.beta1),
                           .weight1 = static_cast<T>((1 - options_.beta1) * scale),
                           .keep2 = kept<T>(update, options_.beta2),
                           .weight2 = static_cast<T>((1 - options_.beta2) * scale * scale)},
             count);
  }

  template <class T>
  void move(const FoldUpdate& update, const FoldRange<T>& range, std::size_t count) const {
    const auto step = static_cast<double>(update.step);
    run_pass(
        MomentStep<T>{
            .parameter = range.parameter,
            .exp_avg = range.state[exp_avg],
            .exp_avg_sq = range.state[exp_avg_sq],
            .keep1 = kept<T>(update, options_.beta1),
            .keep2 = kept<T>(update, options_.beta2),
            .keep = static_cast<T>(1 - update.lr * update.weight_decay),
            .step_size = static_cast<T>(update.lr / (1 - std::pow(options_.beta1, step))),
            .second_correction = static_cast<T>(1 / std::sqrt(1 - std::pow(options_.beta2, step))),
            .eps = static_cast<T>(options_.eps)},
        count);
  }

 protected:
  void fold_whole(const FoldUpdate& update, const WholeFold& whole) const override {
    const double scale = update.gradient_scale;
    const at::Tensor& gradient = whole.contribution;
    decay(update, whole);
    whole.state[exp_avg].add_(gradient, (1 - options_.beta1) * scale);
    whole.state[exp_avg_sq].addcmul_(gradient, gradient, (1 - options_.beta2) * scale * scale);
  }

  void step_whole(const FoldUpdate& update, const WholeFold& whole) const override {
    const auto step = static_cast<double>(update.step);
    if (update.first) decay(update, whole);
    const at::Tensor denominator = whole.state[exp_avg_sq]
                                       .sqrt()
                                       .mul_(1 / std::sqrt(1 - std::pow(options_.beta2, step)))
                                       .add_(options_.eps);
    whole.parameter.mul_(1 - update.lr * update.weight_decay)
        .addcdiv_(whole.state[exp_avg], denominator,
                  -update.lr / (1 - std::pow(options_.beta1, step)));
  }

 private:
  enum State : std::size_t { exp_avg, exp_avg_sq };

  void decay(const FoldUpdate& update, const WholeFold& whole) const {
    whole.state[exp_avg].mul_(kept<double>(update, options_.beta1));
    whole.state[exp_avg_sq].mul_(kept<double>(update, options_.beta2));
  }

  /// Folds a contribution in; a moment decays once per window.
  template <class T>
  static T kept(const FoldUpdate& update, double beta) {
    return update.first ? static_cast<T>(beta) : T{1};
  }

  AdamOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adama(const NamedParameters& parameters,
                                      std::vector<ParameterGroup> groups,
                                      const AdamOptions& options, const StateOptions& state) {
  require_option(options.beta1, 0, 1, "beta1");
  require_option(options.beta2, 0, 1, "beta2");
  require_eps(options.eps);
  if (!options.decoupled_decay)
    throw usage_error("make AdamA", "decoupled weight decay (as AdamW's)", "L2",
                      "decoupled_decay = true: L2's part of the gradient would have to be squared "
                      "with it");
  return std::make_unique<AdamA>(resolve_groups(parameters, groups), options, state);
}

}  // namespace accrue::optim
