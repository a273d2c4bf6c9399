#pragma once

namespace accrue::cli {

/// What every verb that computes needs of its process: throws a runtime Error that names what
/// refuses it if the system permits no thread at all. Under a limit that is reached, work is done
/// in place (core/helper_thread.h).
void expect_what_a_process_needs();

}  // namespace accrue::cli
