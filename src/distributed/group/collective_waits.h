#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "distributed/group/heartbeat.h"

namespace accrue::distributed {

/// Waits for what an engine does, until it is done, `until` has passed, or `heart` hears that the
/// group ended. They return false where they gave it up, and throw what the engine met.

/// A collective of tensors in host memory. It cannot be stopped: the engine goes on with one that
/// was given up.
bool wait_for_collective(c10d::Work& work, Heartbeat& heart, Deadline until);

/// What one rank passes to another, which has no future. It is aborted where it is given up.
bool wait_for_passing(c10d::Work& work, Heartbeat& heart, Deadline until);

/// What runs on a device in order with its other work. The engine's own wait() would only put the
/// current stream behind it and return, and a rank that is gone would be noticed by whatever looks
/// at the device next, without an end.
bool wait_on_device(c10d::Work& work, Heartbeat& heart, Deadline until);

}  // namespace accrue::distributed
