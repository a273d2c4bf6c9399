#pragma once

namespace accrue::cli {

/// What every verb that computes needs of its process: throws a runtime Error that names what
/// refuses it if no thread can be started.
void expect_what_a_process_needs();

}  // namespace accrue::cli
