#pragma once

namespace accrue::cli {

/// The exit status of a program that was interrupted.
inline constexpr int interrupted_status = 130;

/// From here on SIGINT, SIGTERM and SIGHUP end the program at once with status 130, wherever it is.
/// A SIGHUP that was ignored (nohup) stays ignored. A run (train::Trainer) notes them instead while
/// it lasts.
void leave_on_stop_signals();

/// From here on these signals change nothing: the program is ending, with the status that it has.
void ignore_stop_signals();

}  // namespace accrue::cli
