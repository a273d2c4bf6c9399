#include "verify/config/reference_optimizer.h"

#include <ATen/ATen.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <utility>

#include "verify/comparison.h"

namespace accrue::proof {
namespace {

using Groups = std::vector<torch::optim::OptimizerParamGroup>;
using Tensors = std::vector<at::Tensor>;

/// torch::optim's options for a group with that weight decay.
template <class Options>
Options with_decay(Options options, double decay) {
  options.weight_decay(decay);
  return options;
}

template <class Optimizer, class Options>
std::unique_ptr<torch::optim::Optimizer> make(const train::OptimConfig& config,
                                              const Options& options, const Tensors& matrices,
                                              const Tensors& vectors) {
  const double of_vectors = config.decay == train::Decay::all ? config.weight_decay : 0;
  Groups groups;
  if (!matrices.empty())
    groups.emplace_back(matrices,
                        std::make_unique<Options>(with_decay(options, config.weight_decay)));
  if (!vectors.empty())
    groups.emplace_back(vectors, std::make_unique<Options>(with_decay(options, of_vectors)));
  return std::make_unique<Optimizer>(std::move(groups), options);
}

std::unique_ptr<torch::optim::Optimizer> make(const train::OptimConfig& config,
                                              const Tensors& matrices, const Tensors& vectors) {
  const std::tuple<double, double> betas{config.beta1, config.beta2};
  switch (config.kind) {
    case train::OptimizerKind::sgd:
      return make<torch::optim::SGD>(
          config, torch::optim::SGDOptions(config.lr).momentum(config.momentum), matrices, vectors);
    case train::OptimizerKind::rmsprop:
      return make<torch::optim::RMSprop>(
          config, torch::optim::RMSpropOptions(config.lr).eps(config.eps).momentum(config.momentum),
          matrices, vectors);
    case train::OptimizerKind::adam:
      return make<torch::optim::Adam>(
          config, torch::optim::AdamOptions(config.lr).betas(betas).eps(config.eps), matrices,
          vectors);
    default:
      return make<torch::optim::AdamW>(
          config, torch::optim::AdamWOptions(config.lr).betas(betas).eps(config.eps), matrices,
          vectors);
  }
}

/// What a gradient of that norm is multiplied with.
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
  Tensors matrices, vectors;
  for (const NamedParameter& parameter : trained) {
    const at::Tensor copy = parameter.tensor.detach().to(at::kDouble, false, /*copy=*/true);
    impl_->copies.push_back(copy.requires_grad_());
    (copy.dim() >= 2 ? matrices : vectors).push_back(copy);
  }
  impl_->optimizer = make(config, matrices, vectors);
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
