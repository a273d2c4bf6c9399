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

/// What a network normalises by. All but `batch` treat each sample by itself, so they do not depend
/// on how the batch is split.
enum class Norm {
  batch,
  group,     ///< Wu and He, arXiv:1803.08494
  layer,     ///< over channels and space of a sample: one group
  instance,  ///< over the space of a channel: one group per channel (arXiv:1607.08022)
};
/// The words that files of models have.
inline constexpr auto norm_words = enum_words<Norm>({{Norm::batch, "batch"},
                                                     {Norm::group, "group"},
                                                     {Norm::layer, "layer"},
                                                     {Norm::instance, "instance"}});

/// The groups of a group normalisation that stands for `norm` over `channels`. For `group` the
/// largest divisor of `channels` that is at most 32 and leaves 4 channels a group, or else 1:
/// groups of one or two values would normalise the signal itself away if the map has one pixel.
/// Not for `batch` (usage Error).
std::int64_t groups_of(Norm norm, std::int64_t channels);

/// The norm that a model with such an option is to be built with: `batch` unless it is to be
/// converted.
Norm norm_of(BatchNormPolicy policy);

/// The batch normalisations of a model.
struct BatchNorms {
  std::vector<std::string> cut;     ///< their names, where they are at the entrance of a segment
  std::vector<ForeignLayer> uncut;  ///< those that cannot be reached
  bool none() const { return cut.empty() && uncut.empty(); }
};
BatchNorms find_batch_norms(Trainable& model);

/// Throws a usage Error if `model` cannot be trained under `policy`: `error` and the conversions
/// where batch normalisations are left, naming them and the ways out; `exact` where one cannot be
/// cut, with the reason. `micro` allows everything: whoever chooses it has to say so in the log.
void check_batch_norms(Trainable& model, BatchNormPolicy policy);

/// `network` with every BatchNorm1d, 2d and 3d among its own modules replaced by a GroupNorm that
/// stands for `norm`, weights and biases kept; the other modules are shared with it. Throws a usage
/// Error for Norm::batch, and for Norm::instance where a BatchNorm1d might be left with one value
/// to normalise.
torch::nn::Sequential convert_batch_norms(const torch::nn::Sequential& network, Norm norm);

}  // namespace accrue::models
