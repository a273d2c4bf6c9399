#pragma once

namespace accrue::models {

/// The initial values of a model's parameters.
enum class Initialisation {
  random,
  zeros,   ///< for code that fills them at once (a checkpoint, a folder)
  shapes,  ///< no values and no memory (ATen's meta device), to count parameters
};

}  // namespace accrue::models
