#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "distributed/group/liveness/heartbeat.h"

namespace accrue::distributed {

/// These wait for an engine's work until it is done, `until` has passed, or `heartbeat` learns that
/// the group ended. They return false if they gave it up, and rethrow the engine's errors.

/// A collective of tensors in host memory. It cannot be stopped: the engine continues one that was
/// given up.
bool wait_for_collective(c10d::Work& work, Heartbeat& heartbeat, Deadline until);

/// A message from one rank to another, which has no future. It is aborted if it is given up.
bool wait_for_passing(c10d::Work& work, Heartbeat& heartbeat, Deadline until);

/// Work that runs on a device in order with its other work. The engine's own wait() would only make
/// the current stream depend on it and return, and the next access to the device would notice a
/// lost rank, by waiting without end.
bool wait_on_device(c10d::Work& work, Heartbeat& heartbeat, Deadline until);

}  // namespace accrue::distributed
