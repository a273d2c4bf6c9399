#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/normalization.h>

#include "accrue/core/error.h"
#include "accrue/models/normalisation.h"

namespace accrue::models {
namespace {

/// The common properties of BatchNorm1d, 2d and 3d.
struct Found {
  const torch::nn::BatchNormOptions* options = nullptr;
  at::Tensor weight, bias;
  bool may_be_flat = false;  ///< BatchNorm1d also takes [B, C]
};

template <class Layer>
bool look(torch::nn::Module& module, bool may_be_flat, Found& found) {
  auto* layer = module.as<Layer>();
  if (layer == nullptr) return false;
  found = {&layer->options, layer->weight, layer->bias, may_be_flat};
  return true;
}

std::optional<Found> batch_norm_in(torch::nn::Module& module) {
  Found found;
  if (look<torch::nn::BatchNorm1dImpl>(module, true, found) ||
      look<torch::nn::BatchNorm2dImpl>(module, false, found) ||
      look<torch::nn::BatchNorm3dImpl>(module, false, found))
    return found;
  return std::nullopt;
}

torch::nn::GroupNorm converted(const Found& layer, Norm norm, const std::string& name) {
  if (norm == Norm::instance && layer.may_be_flat)
    throw usage_error("convert batch norm " + name,
                      "more than one value for each channel of a sample",
                      "a BatchNorm1d, whose input may have one",
                      "Norm::group or Norm::layer (convert-group, convert-layer)");
  const std::int64_t channels = layer.options->num_features();
  torch::nn::GroupNorm result(torch::nn::GroupNormOptions(groups_of(norm, channels), channels)
                                  .eps(layer.options->eps())
                                  .affine(layer.options->affine()));
  if (!layer.options->affine()) return result;
  const at::NoGradGuard no_grad;
  result->to(layer.weight.device(), layer.weight.scalar_type());
  result->weight.copy_(layer.weight);
  result->bias.copy_(layer.bias);
  return result;
}

}  // namespace

torch::nn::Sequential convert_batch_norms(const torch::nn::Sequential& network, Norm norm) {
  if (norm == Norm::batch)
    throw usage_error("convert batch norms", "group, layer or instance", "batch",
                      "leaving the network as it is");
  torch::nn::Sequential result;
  const auto children = network->named_children();
  std::size_t place = 0;
  for (const torch::nn::AnyModule& module : *network) {
    const std::string& name = children[place++].key();
    const auto found = batch_norm_in(*module.ptr());
    result->push_back(name, found ? torch::nn::AnyModule(converted(*found, norm, name)) : module);
  }
  return result;
}

}  // namespace accrue::models
