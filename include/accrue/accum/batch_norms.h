#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "accrue/core/user_model.h"

namespace torch::nn {
class Module;
}
namespace torch::jit {
struct Module;
}

namespace accrue::accum {

/// Whether `module` is a BatchNorm1d, 2d or 3d.
bool is_batch_norm(const torch::nn::Module& module);
/// Names of the batch normalisations in `module`.
std::vector<std::string> batch_norms_of(const torch::nn::Module& module);

/// Names of the batch normalisations that use the statistics of their input: in training mode, or
/// without running statistics. Their gradient over micro-batches differs from that of one pass over
/// the batch.
std::vector<std::string> batch_norms_in_training(const torch::nn::Module& module);
std::vector<std::string> batch_norms_in_training(const torch::jit::Module& module);

using FindBatchNorms = std::function<std::vector<std::string>()>;

/// Returns batch_norms_in_training() of `model` as a function; null if it is neither kind of
/// module. Keeps a copy of a holder, and a reference to any other model.
template <class Model>
FindBatchNorms find_batch_norms_in_training(const Model& model) {
  const auto& network = detail::pointee(model);
  using Network = std::remove_reference_t<decltype(network)>;
  if constexpr (std::is_convertible_v<Network*, const torch::nn::Module*> ||
                std::is_convertible_v<Network*, const torch::jit::Module*>) {
    if constexpr (requires { model->parameters(); } && std::is_copy_constructible_v<Model>) {
      return [model] { return batch_norms_in_training(*model); };
    } else {
      return [&network] { return batch_norms_in_training(network); };
    }
  } else {
    return {};
  }
}

}  // namespace accrue::accum
