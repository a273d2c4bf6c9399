#pragma once

namespace accrue::models {

/// What a model's parameters are made with.
enum class Initialisation {
  random,
  zeros,   ///< for whoever fills them at once (a checkpoint, a folder)
  shapes,  ///< no values and no memory (ATen's meta device): for whoever counts parameters
};

}  // namespace accrue::models
