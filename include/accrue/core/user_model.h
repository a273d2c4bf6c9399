#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "accrue/core/parameter.h"

/// The requirements of the library's templates on a model of unknown type: a torch::nn module or
/// its holder, a TorchScript module, or a class of the user.
namespace accrue::detail {

template <class Model>
concept HasParameters = requires(Model& model) {
  model->parameters();
}
|| requires(Model& model) { model.parameters(); };

template <class Model>
concept HasNamedParameters = requires(Model& model) {
  model->named_parameters();
}
|| requires(Model& model) { model.named_parameters(); };

/// torch's OrderedDict<std::string, Tensor>, TorchScript's lists, NamedParameters.
template <class List>
concept ListOfNamed = requires(const List& list) {
  list.begin()->key();
}
|| requires(const List& list) { (*list.begin()).name; };

/// The module inside a holder; any other model unchanged.
template <class Model>
auto& pointee(Model& model) {
  if constexpr (
      requires { model->parameters(); } || requires { model->named_parameters(); }) {
    return *model;
  } else {
    return model;
  }
}

template <ListOfNamed List>
NamedParameters named(const List& list) {
  NamedParameters tensors;
  for (const auto& item : list) {
    if constexpr (requires { item.key(); }) {
      tensors.push_back({item.key(), item.value()});
    } else if constexpr (requires { item.tensor; }) {
      tensors.push_back({item.name, item.tensor});
    } else {
      tensors.push_back({item.name, item.value});
    }
  }
  return tensors;
}

/// Names the tensors "0", "1", ... in order.
inline NamedParameters numbered(const std::vector<at::Tensor>& parameters) {
  NamedParameters named;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    named.push_back({std::to_string(i), parameters[i]});
  return named;
}

inline std::vector<at::Tensor> tensors_of(const NamedParameters& parameters) {
  std::vector<at::Tensor> tensors;
  for (const NamedParameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

/// The tensors of any range of them. The iterators of TorchScript's lists belong to no standard
/// iterator category, so a vector cannot be constructed from a pair of them.
template <class Range>
std::vector<at::Tensor> tensors_in(const Range& range) {
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& tensor : range) tensors.push_back(tensor);
  return tensors;
}

/// The model's parameters with their names; numbered if it only has parameters().
template <class Model>
NamedParameters named_parameters_of(Model& model) {
  auto& network = pointee(model);
  if constexpr (requires { network.named_parameters(); }) {
    return named(network.named_parameters());
  } else {
    return numbered(tensors_in(network.parameters()));
  }
}

/// The model's buffers; an empty list if it has no buffers().
template <class Model>
std::vector<at::Tensor> buffers_of(Model& model) {
  auto& network = pointee(model);
  if constexpr (requires { network.buffers(); }) {
    return tensors_in(network.buffers());
  } else {
    return {};
  }
}

}  // namespace accrue::detail
