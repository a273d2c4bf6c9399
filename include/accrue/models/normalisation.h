#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/core/enum_words.h"
#include "accrue/models/batch_norm_policy.h"
#include "accrue/models/trainable.h"

namespace torch::nn {
class Sequential;
}

namespace accrue::models {

/// The normalisation of a network. All but `batch` treat each sample separately, so they do not
/// depend on how the batch is split.
enum class Norm {
  batch,
  group,     ///< Wu and He, arXiv:1803.08494
  layer,     ///< over channels and space of a sample: one group
  instance,  ///< over the space of a channel: one group per channel (arXiv:1607.08022)
};
/// The words in model files.
inline constexpr auto norm_words = enum_words<Norm>({{Norm::batch, "batch"},
                                                     {Norm::group, "group"},
                                                     {Norm::layer, "layer"},
                                                     {Norm::instance, "instance"}});

/// The number of groups of a group normalisation that implements `norm` over `channels`. For
/// `group` it is the largest divisor of `channels` that is at most 32 and leaves 4 channels per
/// group, or 1: groups of one or two values would normalise the signal away if the map has one
/// pixel. Throws a usage Error for `batch`.
std::int64_t groups_of(Norm norm, std::int64_t channels);

/// The norm with which to build a model under `policy`: `batch` unless the policy converts
/// it.
Norm norm_of(BatchNormPolicy policy);

/// The batch normalisations of a model.
struct BatchNorms {
  std::vector<std::string> cut;     ///< names of those at the entrance of a segment
  std::vector<ForeignLayer> uncut;  ///< those that cannot be reached
  bool none() const { return cut.empty() && uncut.empty(); }
};
BatchNorms find_batch_norms(Trainable& model);

/// Throws a usage Error if `model` cannot be trained under `policy`: `error` and the conversions if
/// batch normalisations are left, naming them and the alternatives; `exact` if one cannot be cut,
/// with the reason. `micro` allows all models: code that selects it must log that.
void check_batch_norms(Trainable& model, BatchNormPolicy policy);

/// Returns `network` with every BatchNorm1d, 2d and 3d among its direct modules replaced by a
/// GroupNorm that implements `norm`, with the same weights and biases; other modules are shared.
/// Throws a usage Error for Norm::batch, and for Norm::instance if a BatchNorm1d might have only
/// one value to normalise.
torch::nn::Sequential convert_batch_norms(const torch::nn::Sequential& network, Norm norm);

}  // namespace accrue::models
