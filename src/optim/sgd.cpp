#include <limits>

#include "optim/elementwise_optimizer.h"

namespace accrue::optim {
namespace {

class Sgd final : public PassOptimizer<Sgd> {
 public:
  Sgd(std::vector<Trained> trained, const SgdOptions& options, const StateOptions& state)
      : PassOptimizer(std::move(trained), state_kinds(options), state), options_(options) {}

  template <class T>
  SgdPass<T> pass(const Update& update, const Range<T>& range) const {
    return {.parameter = range.parameter,
            .gradient = range.gradient,
            .momentum_buffer = range.state[momentum_buffer],
            .gradient_scale = static_cast<T>(update.gradient_scale),
            .l2 = static_cast<T>(update.weight_decay),
            .momentum = static_cast<T>(options_.momentum),
            .lr = static_cast<T>(update.lr)};
  }

 protected:
  void update_whole(WholeUpdate& whole) const override {
    const Update& update = whole.update;
    std::vector<at::Tensor>& state = whole.state;
    at::Tensor direction = penalised_gradient(whole, update.weight_decay);
    if (!state.empty()) direction = state[momentum_buffer].mul_(options_.momentum).add_(direction);
    whole.parameter.sub_(direction, update.lr);
  }

 private:
  enum State : std::size_t { momentum_buffer };

  static std::vector<StateKind> state_kinds(const SgdOptions& options) {
    if (options.momentum == 0) return {};
    return {{"momentum"}};
  }

  SgdOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const NamedParameters& parameters,
                                    std::vector<ParameterGroup> groups, const SgdOptions& options,
                                    const StateOptions& state) {
  require_option(options.momentum, 0, std::numeric_limits<double>::infinity(), "momentum");
  return std::make_unique<Sgd>(resolve_groups(parameters, groups), options, state);
}

}  // namespace accrue::optim
