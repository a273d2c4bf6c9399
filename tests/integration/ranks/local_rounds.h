#pragma once

#include <cstdint>

#include "integration/ranks/distributed_run.h"

namespace accrue::train::testing {

/// `c` with outer steps after this many local ones, and state in the inner optimizers and the outer
/// one.
inline Config diloco(Config c, std::int64_t steps) {
  c.optim.kind = OptimizerKind::adamw;
  c.dist.local_steps = steps;
  c.dist.outer_lr = 0.7;
  c.dist.outer_momentum = 0.9;
  return c;
}

/// Its parts are merged some inner steps after they were sent.
inline Config streamed(Config c, std::int64_t parts, std::int64_t delay) {
  c.dist.outer_parts = parts;
  c.dist.outer_delay = delay;
  return c;
}

}  // namespace accrue::train::testing
