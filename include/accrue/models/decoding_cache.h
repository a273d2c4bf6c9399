#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "accrue/kernels/key_value_cache.h"

namespace accrue::models {

/// The state of a language model after reading a text: the keys and values of each layer.
struct DecodingCache {
  std::vector<kernels::KeyValueCache> layers;

  /// The number of tokens that the model has read.
  std::int64_t tokens() const { return layers.front().positions(); }
  /// Whether reading can continue after the first `tokens` tokens.
  bool can_go_back_to(std::int64_t tokens) const {
    return std::all_of(layers.begin(), layers.end(),
                       [=](const auto& layer) { return layer.can_go_back_to(tokens); });
  }
  void go_back_to(std::int64_t tokens) {
    for (kernels::KeyValueCache& layer : layers) layer.go_back_to(tokens);
  }
};

}  // namespace accrue::models
