#pragma once

#include "accrue/train/custom.h"

namespace accrue {

/// Runs accrue's command line with the arguments of a program's main. Returns the exit status: 0 on
/// success, 2 if the request is invalid, 3 if memory.budget does not allow it, 130 after a signal,
/// and otherwise 1. It prints the reason of a failure to standard error.
int main(int count, char** words);

/// Runs the command line of a program that provides a model: train, plan, verify, bench, doctor and
/// data with that model, and the commands for run folders. model.kind is "custom", whatever the
/// config states.
///
///   int main(int count, char** words) {
///     accrue::exit(accrue::main(count, words, {.model = [](const accrue::train::Config& config) {
///       return accrue::train::trainable(Net(config.model.width), loss_of_micro_batch);
///     }}));
///   }
int main(int count, char** words, train::Custom custom);

/// Ends the process after a command: flushes output, and destroys nothing that threads may still
/// use while they wait for a missing rank.
[[noreturn]] void exit(int status);

}  // namespace accrue
