#pragma once

#include "accrue/train/custom.h"

namespace accrue {

/// Runs the command line of accrue: `words` as a program's main receives them. Returns the exit
/// status: 0; 2 where what was asked for is refused; 3 where memory.budget does not allow it; 130
/// after a signal; else 1. It prints the reason to the standard error.
int main(int count, char** words);

/// Runs the command line of a program that brings a model: train, plan, verify, bench, doctor and
/// data of that model, and the verbs for run folders. model.kind is "custom", whatever the config
/// says of it.
///
///   int main(int count, char** words) {
///     accrue::exit(accrue::main(count, words, {.model = [](const accrue::train::Config& config) {
///       return accrue::train::trainable(Net(config.model.width), loss_of_micro_batch);
///     }}));
///   }
int main(int count, char** words, train::Custom custom);

/// Ends the process as a command should end: what was printed is written, and nothing is taken from
/// under threads that still wait for a rank that is gone.
[[noreturn]] void exit(int status);

}  // namespace accrue
