#include <limits>

#include "elementwise_optimizer.h"
#include "passes.h"

namespace accrue::optim {
namespace {

enum State : std::size_t { momentum_buffer };

class Sgd final : public ElementwiseOptimizer {
 public:
  Sgd(std::vector<Trained> trained, const SgdOptions& options)
      : ElementwiseOptimizer(std::move(trained), state_names(options)), options_(options) {}

 protected:
  void update_range(const Update& update, const UpdatedTensors& tensors, std::size_t begin,
                    std::size_t end) const override {
    if (tensors.parameter.scalar_type() == at::kDouble)
      run_pass(pass<double>(update, tensors), begin, end);
    else
      run_pass(pass<float>(update, tensors), begin, end);
  }

  void update_whole(const Update& update, UpdatedTensors& tensors) const override {
    at::Tensor direction = penalised_gradient(update, tensors, update.weight_decay);
    if (!tensors.state.empty())
      direction = tensors.state[momentum_buffer].mul_(options_.momentum).add_(direction);
    tensors.parameter.sub_(direction, update.lr);
  }

 private:
  static std::vector<std::string> state_names(const SgdOptions& options) {
    if (options.momentum == 0) return {};
    return {"momentum"};
  }

  template <class T>
  SgdPass<T> pass(const Update& update, const UpdatedTensors& tensors) const {
    return {.parameter = tensors.parameter.data_ptr<T>(),
            .gradient = tensors.gradient.const_data_ptr<T>(),
            .momentum_buffer = state_data<T>(tensors, momentum_buffer),
            .gradient_scale = static_cast<T>(update.gradient_scale),
            .l2 = static_cast<T>(update.weight_decay),
            .momentum = static_cast<T>(options_.momentum),
            .lr = static_cast<T>(update.lr)};
  }

  SgdOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const NamedParameters& parameters,
                                    std::vector<ParameterGroup> groups, const SgdOptions& options) {
  require_option(options.momentum, 0, std::numeric_limits<double>::infinity(), "momentum");
  return std::make_unique<Sgd>(resolve_groups(parameters, groups), options);
}

}  // namespace accrue::optim
