#include <ATen/ATen.h>

#include <limits>

#include "accrue/core/error.h"
#include "optim/elementwise_optimizer.h"
#include "optim/folding_optimizer.h"

namespace accrue::optim {
namespace {

class FoldedSgd final : public FoldingPasses<FoldedSgd> {
 public:
  FoldedSgd(std::vector<Trained> trained, const SgdOptions& options, const StateOptions& state)
      : FoldingPasses("folded SGD", std::move(trained), {{"momentum"}}, state,
                      /*takes_parts=*/true),
        options_(options) {}

  template <class T>
  void fold(const FoldUpdate& update, const FoldRange<T>& range, std::size_t count) const {
    run_pass(taken<T>(update, range), count);
  }

  template <class T>
  void move(const FoldUpdate& update, const FoldRange<T>& range, std::size_t count) const {
    if (update.first) run_pass(taken<T>(update, range), count);
    run_pass(SgdPass<T>{.parameter = range.parameter,
                        .gradient = range.state[momentum_buffer],
                        .momentum_buffer = nullptr,
                        .gradient_scale = 1,
                        .l2 = 0,
                        .momentum = 0,
                        .lr = static_cast<T>(update.lr)},
             count);
  }

 protected:
  void fold_whole(const FoldUpdate& update, const WholeFold& whole) const override {
    const at::Tensor& buffer = whole.state[momentum_buffer];
    if (update.first) buffer.mul_(options_.momentum).add_(whole.parameter, update.weight_decay);
    if (whole.contribution.defined()) buffer.add_(whole.contribution, update.gradient_scale);
  }

  void step_whole(const FoldUpdate& update, const WholeFold& whole) const override {
    if (update.first) fold_whole(update, whole);
    whole.parameter.sub_(whole.state[momentum_buffer], update.lr);
  }

 private:
  enum State : std::size_t { momentum_buffer };

  /// Updates the momentum buffer, with the contribution if there is one; decay and the L2 penalty
  /// are applied once per window.
  template <class T>
  MomentumFold<T> taken(const FoldUpdate& update, const FoldRange<T>& range) const {
    return {.parameter = range.parameter,
            .gradient = range.gradient,
            .momentum_buffer = range.state[momentum_buffer],
            .keep = update.first ? static_cast<T>(options_.momentum) : T{1},
            .weight = static_cast<T>(update.gradient_scale),
            .l2 = update.first ? static_cast<T>(update.weight_decay) : T{0}};
  }

  SgdOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_folded_sgd(const NamedParameters& parameters,
                                           std::vector<ParameterGroup> groups,
                                           const SgdOptions& options, const StateOptions& state) {
  require_option(options.momentum, 0, std::numeric_limits<double>::infinity(), "momentum");
  if (options.momentum == 0)
    throw usage_error("make folded SGD", "a momentum above 0", "0",
                      "make_sgd: without a momentum buffer there is nothing to fold into");
  return std::make_unique<FoldedSgd>(resolve_groups(parameters, groups), options, state);
}

}  // namespace accrue::optim
