#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/descriptor.h"

namespace accrue {

/// A program that was started.
struct Spawned {
  pid_t process = -1;  ///< -1: it could not be started
  Descriptor output;   ///< what it writes to its standard output comes here
  int error = 0;       ///< the error number where it could not be started
};

/// In which process group a program runs: the keys of a terminal reach ours, and a signal to a
/// group of its own reaches what it started, too.
enum class ProcessGroup { ours, own };

/// Starts `command`, its name and its words, found as a shell finds it. It reads nothing, and what
/// it writes to the standard error is lost.
Spawned spawn(std::vector<std::string> command, ProcessGroup group);

}  // namespace accrue
