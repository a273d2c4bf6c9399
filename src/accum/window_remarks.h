#pragma once

#include <string>
#include <vector>

#include "accrue/accum/window.h"

namespace accrue::accum {

/// Something about a window that whoever trains should be told of once.
struct WindowRemark {
  const char* name;  ///< of the event: "unused", "loss_weight" or "repeated_samples"
  std::string reason;
};

/// What is noteworthy about a window that closed to a gradient: parameters that no loss reached,
/// losses that look like means, and samples that were run twice.
std::vector<WindowRemark> remarks_on(const Window& window);

}  // namespace accrue::accum
