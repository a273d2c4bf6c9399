#pragma once

namespace accrue::cli {

/// What every verb that computes needs of its process, asked before a library asks for it and ends
/// the process with words of its own. Throws a usage Error if the working directory is gone or may
/// not be looked up (oneMKL looks it up), and a runtime Error if no thread can be started.
void expect_what_a_process_needs();

}  // namespace accrue::cli
