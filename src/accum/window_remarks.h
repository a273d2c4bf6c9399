#pragma once

#include <string>
#include <vector>

#include "accrue/accum/window.h"

namespace accrue::accum {

/// A remark on a window that the user should receive once.
struct WindowRemark {
  const char* name;  ///< of the event: "unused", "loss_weight" or "repeated_samples"
  std::string reason;
};

/// Remarks on a window that closed with a gradient: parameters that no loss reached, losses that
/// look like means, and samples that ran twice.
std::vector<WindowRemark> remarks_on(const Window& window);

}  // namespace accrue::accum
