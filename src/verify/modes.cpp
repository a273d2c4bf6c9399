#include "verify/modes.h"

#include <torch/nn/modules/batchnorm.h>

namespace accrue::proof {
namespace {

using Undo = std::vector<std::function<void()>>;

/// Statistics that no sample changes: those kept, or 0 and 1 if none are.
template <class Layer>
bool freeze(torch::nn::Module& module, Undo& undo) {
  auto* layer = dynamic_cast<Layer*>(&module);
  if (!layer) return false;
  const bool training = layer->is_training();
  undo.push_back([=] { layer->train(training); });
  layer->eval();
  if (layer->options.track_running_stats()) return true;
  const std::int64_t features = layer->options.num_features();
  const auto options = layer->weight.defined() ? layer->weight.options().requires_grad(false)
                                               : at::TensorOptions(at::kFloat);
  layer->options.track_running_stats(true);
  layer->running_mean = at::zeros({features}, options);
  layer->running_var = at::ones({features}, options);
  undo.push_back([=] {
    layer->options.track_running_stats(false);
    layer->running_mean = layer->running_var = at::Tensor();
  });
  return true;
}

void freeze_batch_norms(torch::nn::Module& root, Undo& undo) {
  for (const auto& module : root.modules(/*include_self=*/false)) {
    freeze<torch::nn::BatchNorm1dImpl>(*module, undo) ||
        freeze<torch::nn::BatchNorm2dImpl>(*module, undo) ||
        freeze<torch::nn::BatchNorm3dImpl>(*module, undo);
  }
}

void evaluate_modules(torch::nn::Module& root, Undo& undo) {
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> flags;
  for (const auto& module : root.modules(/*include_self=*/false))
    flags.emplace_back(module, module->is_training());
  undo.push_back([&root, flags, training = root.is_training()] {
    // Parents come before their children, whose modes train() changes too.
    root.train(training);
    for (const auto& [module, was_training] : flags)
      if (module->is_training() != was_training) module->train(was_training);
  });
  root.eval();
}

}  // namespace

ModeScope::ModeScope(const detail::VerifiedModel& model, Mode mode) {
  if (mode == Mode::training) return;
  if (model.module) {
    if (mode == Mode::batch_norms_frozen) {
      freeze_batch_norms(*model.module, undo_);
    } else {
      evaluate_modules(*model.module, undo_);
    }
  } else if (model.evaluate) {
    undo_.push_back(model.evaluate(mode == Mode::batch_norms_frozen));
  }
}

ModeScope::~ModeScope() {
  for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) (*undo)();
}

}  // namespace accrue::proof
