#include <limits>

#include "optim/elementwise_optimizer.h"

namespace accrue::optim {
namespace {

class RmsProp final : public PassOptimizer<RmsProp> {
 public:
  RmsProp(std::vector<Trained> trained, const RmsPropOptions& options, const StateOptions& state)
      : PassOptimizer(std::move(trained), state_kinds(options), state), options_(options) {}

  template <class T>
  RmsPropPass<T> pass(const Update& update, const Range<T>& range) const {
    return {.parameter = range.parameter,
            .gradient = range.gradient,
            .square_avg = range.state[square_avg],
            .momentum_buffer = range.state[momentum_buffer],
            .gradient_scale = static_cast<T>(update.gradient_scale),
            .l2 = static_cast<T>(update.weight_decay),
            .alpha = static_cast<T>(options_.alpha),
            .one_minus_alpha = static_cast<T>(1 - options_.alpha),
            .eps = static_cast<T>(options_.eps),
            .momentum = static_cast<T>(options_.momentum),
            .lr = static_cast<T>(update.lr)};
  }

 protected:
  void update_whole(WholeUpdate& whole) const override {
    const Update& update = whole.update;
    std::vector<at::Tensor>& state = whole.state;
    const at::Tensor gradient = penalised_gradient(whole, update.weight_decay);
    at::Tensor& squares = state[square_avg];
    squares.mul_(options_.alpha).addcmul_(gradient, gradient, 1 - options_.alpha);
    at::Tensor direction = gradient / squares.sqrt().add_(options_.eps);
    if (momentum_buffer < state.size())
      direction = state[momentum_buffer].mul_(options_.momentum).add_(direction);
    whole.parameter.sub_(direction, update.lr);
  }

 private:
  enum State : std::size_t { square_avg, momentum_buffer };

  static std::vector<StateKind> state_kinds(const RmsPropOptions& options) {
    if (options.momentum == 0) return {{"square_avg", StateSign::not_negative}};
    return {{"square_avg", StateSign::not_negative}, {"momentum"}};
  }

  RmsPropOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(const NamedParameters& parameters,
                                        std::vector<ParameterGroup> groups,
                                        const RmsPropOptions& options, const StateOptions& state) {
  constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  require_option(options.alpha, 0, 1, "alpha");
  require_eps(options.eps);
  require_option(options.momentum, 0, kUnbounded, "momentum");
  return std::make_unique<RmsProp>(resolve_groups(parameters, groups), options, state);
}

}  // namespace accrue::optim
