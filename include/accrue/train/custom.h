#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrue/core/loss.h"
#include "accrue/data/source.h"
#include "accrue/models/torch_module.h"
#include "accrue/models/trainable.h"

namespace torch::optim {
class Optimizer;
}

namespace accrue::train {

struct Config;

/// What a program brings to be trained (model.kind "custom").
struct Custom {
  /// Makes the model. It may read the config: the keys of [model] are the program's to use, and
  /// run.seed. Whoever works on a config calls it once, and a proof once more for a copy in fp64:
  /// each call gives a model of its own, with the same values where the config is the same but for
  /// precision.
  std::function<std::unique_ptr<models::Trainable>(const Config& config)> model;
  /// What to train on; null: the files of data.train.
  std::shared_ptr<const data::Source> train = nullptr;
  /// What to evaluate on; null: data.val or data.val_fraction, as of files.
  std::shared_ptr<const data::Source> val = nullptr;
  /// Makes the optimizer of the parameters that are trained; null: the one that [optim] says, of
  /// which the schedule and clipping count in any case (optim/torch_optimizer.h).
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor> parameters)>
      optimizer = nullptr;
};

namespace detail {

template <class Model>
std::shared_ptr<torch::nn::Module> module_of(const Model& model) {
  static_assert(
      requires { model->named_parameters(); },
      "accrue: the model must be held by a torch::nn holder or a std::shared_ptr of a module");
  if constexpr (requires { model.ptr(); })
    return model.ptr();
  else
    return model;
}

}  // namespace detail

/// A module, held by `Model` (a holder or a std::shared_ptr), with the loss that
/// `loss_fn(model, micro)` makes of a micro-batch, as something to train.
template <class Model, class LossFn>
std::unique_ptr<models::Trainable> trainable(Model model, LossFn loss_fn) {
  static_assert(std::is_invocable_r_v<Loss, LossFn&, Model&, const batch::MicroBatch&>,
                "accrue: loss_fn must be callable as loss_fn(model, micro), with an "
                "accrue::batch::MicroBatch, and return accrue::Loss{sum, weight}, the sum of the "
                "loss's terms and how many there are; of a mean over n terms, "
                "accrue::Loss{mean * n, n}");
  return models::from_loss(
      detail::module_of(model),
      [model, loss_fn](const batch::MicroBatch& micro) mutable { return loss_fn(model, micro); },
      "model");
}

/// Makes a module with several losses trainable: `losses_fn(model, micro)` returns a std::vector of
/// them, in the order of `named`.
template <class Model, class LossesFn>
std::unique_ptr<models::Trainable> trainable(Model model, LossesFn losses_fn,
                                             std::vector<models::NamedLoss> named) {
  static_assert(
      std::is_invocable_r_v<std::vector<Loss>, LossesFn&, Model&, const batch::MicroBatch&>,
      "accrue: losses_fn must be callable as losses_fn(model, micro) and return a "
      "std::vector<accrue::Loss>");
  return models::from_losses(
      detail::module_of(model),
      [model, losses_fn](const batch::MicroBatch& micro) mutable {
        return losses_fn(model, micro);
      },
      std::move(named), "model");
}

/// The config of a run of what the program brings.
Config with_custom(Config config, Custom custom);

/// Gives a model that there is, once; whoever wants another is told that there is none.
std::function<std::unique_ptr<models::Trainable>(const Config& config)> once(
    std::unique_ptr<models::Trainable> model);

}  // namespace accrue::train
