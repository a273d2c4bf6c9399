#pragma once

#include <cstdint>
#include <vector>

#include "accrue/train/config.h"
#include "train/watch/gemm_rate.h"

namespace accrue::train {

/// Forward, data-gradient and weight-gradient products of all linear layers and the head for
/// `tokens` tokens (a vit's patches); attention's own products are not included. A model with
/// another kind of work (convolutions, a foreign module) gets `peak_shape`.
std::vector<GemmShape> gemm_shapes(const ModelConfig& model, std::int64_t tokens);

}  // namespace accrue::train
