#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrue/batch/micro_batch.h"
#include "accrue/core/loss.h"
#include "accrue/core/user_model.h"
#include "accrue/data/source.h"
#include "accrue/models/torch_module.h"
#include "accrue/models/trainable.h"

namespace torch::optim {
class Optimizer;
}

namespace accrue::train {

struct Config;

/// The model and data that a program provides for training (model.kind "custom").
struct Custom {
  /// Makes the model. It may read the config, including all keys of [model] and run.seed. It is
  /// called once for a config, and once more for a copy in fp64 in a verification. Each call
  /// must return a new model, with the same values if the config is the same except for
  /// precision.
  std::function<std::unique_ptr<models::Trainable>(const Config& config)> model;
  /// The training data; null: the files of data.train.
  std::shared_ptr<const data::Source> train = nullptr;
  /// The validation data; null: data.val or data.val_fraction, as for files.
  std::shared_ptr<const data::Source> val = nullptr;
  /// Makes the optimizer of the trained parameters; null: that of [optim]. Schedule and clipping of
  /// [optim] apply in any case (optim/torch_optimizer.h).
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

/// The batch type in a function's second parameter; MicroBatch if the function is generic.
template <class Function>
struct BatchOf {
  using type = batch::MicroBatch;
};
template <class Result, class Model, class Batch>
struct BatchOf<Result (*)(Model, Batch)> {
  using type = std::remove_cvref_t<Batch>;
};
template <class Result, class Class, class Model, class Batch>
struct BatchOf<Result (Class::*)(Model, Batch)> : BatchOf<Result (*)(Model, Batch)> {};
template <class Result, class Class, class Model, class Batch>
struct BatchOf<Result (Class::*)(Model, Batch) const> : BatchOf<Result (*)(Model, Batch)> {};
template <class Function>
requires requires { &Function::operator(); }
struct BatchOf<Function> : BatchOf<decltype(&Function::operator())> {};

/// Whether a module's parameters are fp64.
bool is_in_double(const NamedParameters& parameters);
/// Runs `loss` in fp64 for a batch type without batch_in_double. If libtorch reports different
/// dtypes, throws a usage Error that names the missing function.
void run_unconverted(const std::function<void()>& loss);

/// The result of `loss_fn` for `micro` as a Batch, which is converted to fp64 if the module is in
/// fp64 and batch_in_double (accrue/verify/verify.h) is overloaded for the type.
template <class Batch, class Model, class LossFn>
auto loss_of(const batch::MicroBatch& micro, Model& model, LossFn& loss_fn) {
  if constexpr (std::is_same_v<Batch, batch::MicroBatch>) {
    return loss_fn(model, micro);
  } else {
    const Batch& own = micro.own.as<Batch>();
    if (!is_in_double(accrue::detail::named(model->named_parameters()))) return loss_fn(model, own);
    if constexpr (requires { batch_in_double(own); }) {
      return loss_fn(model, static_cast<const Batch&>(batch_in_double(own)));
    } else {
      std::invoke_result_t<LossFn&, Model&, const Batch&> loss;
      run_unconverted([&] { loss = loss_fn(model, own); });
      return loss;
    }
  }
}

}  // namespace detail

/// Makes a module, held by `Model` (a holder or a std::shared_ptr), trainable with the loss that
/// `loss_fn(model, batch)` returns for an accrue::batch::MicroBatch, or for a batch type of the
/// program, from a source that makes it (data::own_source<Batch>). The type is that of `loss_fn`'s
/// parameter; a generic one receives a MicroBatch, or the type stated in trainable<Batch>(model,
/// loss_fn). For the fp64 copy of the model in a verification, the program's type is converted by
/// its batch_in_double(const Batch&), an overload in its namespace.
template <class Batch, class Model, class LossFn>
std::unique_ptr<models::Trainable> trainable(Model model, LossFn loss_fn) {
  static_assert(std::is_invocable_r_v<Loss, LossFn&, Model&, const Batch&>,
                "accrue: loss_fn must be callable as loss_fn(model, batch), with an "
                "accrue::batch::MicroBatch or a batch type of the program's own, and return "
                "accrue::Loss{sum, weight}, the sum of the loss's terms and how many there are; of "
                "a mean over n terms, accrue::Loss{mean * n, n}");
  return models::from_loss(
      detail::module_of(model),
      [model, loss_fn](const batch::MicroBatch& micro) mutable {
        return detail::loss_of<Batch>(micro, model, loss_fn);
      },
      "model");
}
template <class Model, class LossFn>
std::unique_ptr<models::Trainable> trainable(Model model, LossFn loss_fn) {
  using Batch = typename detail::BatchOf<LossFn>::type;
  return trainable<Batch, Model, LossFn>(std::move(model), std::move(loss_fn));
}

/// Makes a module with several losses trainable: `losses_fn(model, batch)` returns a std::vector of
/// losses, in the order of `named`.
template <class Model, class LossesFn>
std::unique_ptr<models::Trainable> trainable(Model model, LossesFn losses_fn,
                                             const std::vector<models::NamedLoss>& named) {
  using Batch = typename detail::BatchOf<LossesFn>::type;
  static_assert(std::is_invocable_r_v<std::vector<Loss>, LossesFn&, Model&, const Batch&>,
                "accrue: losses_fn must be callable as losses_fn(model, batch) and return a "
                "std::vector<accrue::Loss>");
  return models::from_losses(
      detail::module_of(model),
      [model, losses_fn](const batch::MicroBatch& micro) mutable {
        return detail::loss_of<Batch>(micro, model, losses_fn);
      },
      named, "model");
}

/// The config of a run with the program's model and data.
Config with_custom(Config config, Custom custom);

/// Returns a function that returns `model` once; another call throws a usage Error.
std::function<std::unique_ptr<models::Trainable>(const Config& config)> once(
    std::unique_ptr<models::Trainable> model);

}  // namespace accrue::train
