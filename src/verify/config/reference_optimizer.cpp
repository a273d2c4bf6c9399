#include "verify/config/reference_optimizer.h"

#include <ATen/ATen.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <utility>

#include "core/name_pattern.h"
#include "verify/comparison.h"

namespace accrue::proof {
namespace {

using Groups = std::vector<torch::optim::OptimizerParamGroup>;
using Tensors = std::vector<at::Tensor>;

/// The settings of a group of parameters.
struct Settings {
  double decay, lr;
  auto operator<=>(const Settings&) const = default;
};
using GroupsBySettings = std::map<Settings, Tensors>;

/// The values of optim.decay and optim.rates for a parameter.
Settings settings_of(const train::OptimConfig& config, const NamedParameter& parameter) {
  const bool decays = parameter.tensor.dim() >= 2 || config.decay == train::Decay::all;
  Settings settings{.decay = decays ? config.weight_decay : 0, .lr = config.lr};
  const auto rate = std::ranges::find_if(config.rates, [&](const train::RateOfPattern& candidate) {
    return matches_name(candidate.match, parameter.name);
  });
  if (rate != config.rates.end()) settings.lr = rate->lr;
  return settings;
}

template <class Optimizer, class Options>
std::unique_ptr<torch::optim::Optimizer> make(const Options& options,
                                              const GroupsBySettings& parts) {
  Groups groups;
  for (const auto& [settings, parameters] : parts) {
    auto own = std::make_unique<Options>(options);
    own->weight_decay(settings.decay);
    own->lr(settings.lr);
    groups.emplace_back(parameters, std::move(own));
  }
  return std::make_unique<Optimizer>(std::move(groups), options);
}

std::unique_ptr<torch::optim::Optimizer> make(const train::OptimConfig& config,
                                              const GroupsBySettings& parts) {
  const std::tuple<double, double> betas{config.beta1, config.beta2};
  switch (config.kind) {
    case train::OptimizerKind::sgd:
      return make<torch::optim::SGD>(torch::optim::SGDOptions(config.lr).momentum(config.momentum),
                                     parts);
    case train::OptimizerKind::rmsprop:
      return make<torch::optim::RMSprop>(
          torch::optim::RMSpropOptions(config.lr).eps(config.eps).momentum(config.momentum), parts);
    case train::OptimizerKind::adam:
      return make<torch::optim::Adam>(
          torch::optim::AdamOptions(config.lr).betas(betas).eps(config.eps), parts);
    default:
      return make<torch::optim::AdamW>(
          torch::optim::AdamWOptions(config.lr).betas(betas).eps(config.eps), parts);
  }
}

/// The factor of a gradient with that norm.
double clipping(double norm, double most) { return most > 0 && norm > most ? most / norm : 1; }

}  // namespace

struct ReferenceOptimizer::Impl {
  double clip;
  NamedParameters trained;
  Tensors copies;  ///< in fp64
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

ReferenceOptimizer::ReferenceOptimizer(const train::OptimConfig& config,
                                       const NamedParameters& trained)
    : impl_(std::make_unique<Impl>(Impl{.clip = config.clip, .trained = trained})) {
  GroupsBySettings parts;
  for (const NamedParameter& parameter : trained) {
    const at::Tensor copy = parameter.tensor.detach().cpu().to(at::kDouble, false, /*copy=*/true);
    impl_->copies.push_back(copy.requires_grad_());
    parts[settings_of(config, parameter)].push_back(copy);
  }
  impl_->optimizer = make(config, parts);
}

ReferenceOptimizer::~ReferenceOptimizer() = default;

void ReferenceOptimizer::step(const std::vector<at::Tensor>& sums, double weight) {
  double squares = 0;
  for (const at::Tensor& sum : sums) squares += std::pow(l2_norm(sum) / weight, 2);
  const double factor = clipping(std::sqrt(squares), impl_->clip) / weight;
  for (std::size_t i = 0; i < sums.size(); ++i)
    impl_->copies[i].mutable_grad() = sums[i].to(at::kDouble) * factor;
  impl_->optimizer->step();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < sums.size(); ++i)
    at::Tensor(impl_->trained[i].tensor).copy_(impl_->copies[i]);
}

}  // namespace accrue::proof
