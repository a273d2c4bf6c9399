#include "models/foreign/module_layers.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/rnn.h>

namespace accrue::models {
namespace {

using torch::nn::Module;

template <class Layer>
bool is(const Module& module) {
  return module.as<Layer>() != nullptr;
}

template <class... Layers>
bool drops_as_any_of(const Module& module) {
  const auto drops = []<class Layer>(const Layer* layer) {
    return layer != nullptr && layer->options.p() > 0;
  };
  return (drops(module.as<Layers>()) || ...);
}

template <class... Layers>
bool drops_between_layers_as_any_of(const Module& module) {
  const auto drops = []<class Layer>(const Layer* layer) {
    return layer != nullptr && layer->options.dropout() > 0;
  };
  return (drops(module.as<Layers>()) || ...);
}

/// Whether its dropout is an operation that accrue has masks for (kernels/accelerate.h).
bool drops_by_elements_or_channels(const Module& module) {
  using namespace torch::nn;
  return drops_as_any_of<DropoutImpl, Dropout2dImpl, Dropout3dImpl>(module) ||
         drops_between_layers_as_any_of<MultiheadAttentionImpl, RNNImpl, LSTMImpl, GRUImpl>(module);
}

bool drops_to_a_saturated_value(const Module& module) {
  return drops_as_any_of<torch::nn::AlphaDropoutImpl, torch::nn::FeatureAlphaDropoutImpl>(module);
}

template <class Layer>
std::optional<BatchNorm> stated(const Module& module, const std::string& name) {
  const auto* layer = module.as<Layer>();
  if (layer == nullptr || !layer->options.momentum().has_value()) return std::nullopt;
  return BatchNorm{.name = name,
                   .weight = layer->weight,
                   .bias = layer->bias,
                   .running_mean = layer->running_mean,
                   .running_var = layer->running_var,
                   .batches_tracked = layer->num_batches_tracked,
                   .eps = layer->options.eps(),
                   .momentum = *layer->options.momentum()};
}

}  // namespace

bool is_batch_norm(const Module& module) {
  return is<torch::nn::BatchNorm1dImpl>(module) || is<torch::nn::BatchNorm2dImpl>(module) ||
         is<torch::nn::BatchNorm3dImpl>(module);
}

std::optional<BatchNorm> batch_norm_of(const Module& module, const std::string& name) {
  if (auto layer = stated<torch::nn::BatchNorm1dImpl>(module, name)) return layer;
  if (auto layer = stated<torch::nn::BatchNorm2dImpl>(module, name)) return layer;
  return stated<torch::nn::BatchNorm3dImpl>(module, name);
}

std::vector<ForeignLayer> layers_inside(const Module& module, const std::string& name,
                                        const std::string& reason) {
  std::vector<ForeignLayer> found;
  const auto look = [&](const std::string& path, const Module& part) {
    if (is_batch_norm(part)) found.push_back({ForeignLayer::Kind::batch_norm, path, reason});
    const bool can_be_keyed = drops_by_elements_or_channels(part);
    if (can_be_keyed || drops_to_a_saturated_value(part))
      found.push_back({ForeignLayer::Kind::dropout, path, reason, can_be_keyed});
  };
  look(name, module);
  for (const auto& part : module.named_children())
    for (ForeignLayer& layer :
         layers_inside(*part.value(), name.empty() ? part.key() : name + '.' + part.key(), reason))
      found.push_back(std::move(layer));
  return found;
}

NamedParameters parameters_of(const Module& module) {
  NamedParameters result;
  for (const auto& parameter : module.named_parameters())
    result.push_back({parameter.key(), parameter.value()});
  return result;
}

NamedParameters buffers_of(const Module& module) {
  NamedParameters result;
  for (const auto& buffer : module.named_buffers())
    result.push_back({buffer.key(), buffer.value()});
  return result;
}

}  // namespace accrue::models
