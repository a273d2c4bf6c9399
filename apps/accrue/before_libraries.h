#pragma once

namespace accrue::cli {

/// What the program does before any library's constructor has run. Nothing here may need a library
/// that is initialised, libc included.

/// Ends the process with a usage error if its working directory was deleted or may not be looked
/// up.
void expect_working_directory();

/// Ends the process with a usage error if the limit of its address space leaves its libraries no
/// room to start.
void expect_address_space();

/// Holds back the signals that a run heeds, until main takes them (take_held_signals): loading
/// takes a tenth of a second and more, in which each of them would end the process.
void hold_signals();

/// Starts the program again with bounded spinning, unless the environment states how to wait.
/// Signals that are held back stay so, and so do those that came. If it cannot be started again, it
/// goes on as it is.
void begin_anew_with_bounded_spinning(char** words, char** environment);

}  // namespace accrue::cli
