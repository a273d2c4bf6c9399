#pragma once

#include <torch/nn/module.h>

#include <optional>
#include <string>
#include <vector>

#include "accrue/models/trainable.h"

namespace accrue::models {

/// The batch normalisation in `module`, or none if it is another module or cannot be stated as data
/// (running statistics as cumulative averages).
std::optional<BatchNorm> batch_norm_of(const torch::nn::Module& module, const std::string& name);

bool is_batch_norm(const torch::nn::Module& module);

/// Batch normalisations and dropout in `module` and below, which is run as a black box for
/// `reason`.
std::vector<ForeignLayer> layers_inside(const torch::nn::Module& module, const std::string& name,
                                        const std::string& reason);

NamedParameters parameters_of(const torch::nn::Module& module);
NamedParameters buffers_of(const torch::nn::Module& module);

}  // namespace accrue::models
