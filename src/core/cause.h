#pragma once

#include <exception>
#include <string>

namespace accrue {

/// The part of an exception's message that says what went wrong, for people. libtorch's messages go
/// on with a stack trace, and TorchScript's begin with one; Gloo's stand between a place in its
/// sources and general advice.
std::string cause_of(const std::exception& error);

}  // namespace accrue
