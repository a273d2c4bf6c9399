#pragma once

#include <ATen/core/grad_mode.h>

#include <string_view>

#include "accrue/core/error.h"

namespace accrue::kernels {

/// Refuses `create_graph`: these kernels' gradients have no graph, so a second derivative would
/// silently lack their terms. Call it first in each backward.
inline void expect_first_order(std::string_view operation) {
  if (at::GradMode::is_enabled())
    throw usage_error(operation, "a backward pass without create_graph", "one with it",
                      "plain torch operators where second derivatives are needed");
}

}  // namespace accrue::kernels
