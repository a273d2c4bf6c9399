#pragma once

namespace accrue::cli {

/// Checks what every computing verb needs of its process: throws a runtime Error that names the
/// cause if the system permits no thread at all. If a limit is reached later, work is done on the
/// same thread (core/helper_thread.h).
void require_startable_threads();

}  // namespace accrue::cli
