#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/descriptor.h"

namespace accrue {

/// A started program.
struct Spawned {
  pid_t process = -1;  ///< -1: it could not be started
  Descriptor output;   ///< receives its standard output
  int error = 0;       ///< the error number if it could not be started
};

/// The process group of a started program: a terminal's keys reach our group, and a signal to a
/// separate group also reaches the program's children.
enum class ProcessGroup { ours, own };

/// Starts `command`, a name and its arguments, looked up like a shell does. It reads nothing, and
/// its standard error is discarded.
Spawned spawn(std::vector<std::string> command, ProcessGroup group);

}  // namespace accrue
