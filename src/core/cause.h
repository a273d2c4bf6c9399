#pragma once

#include <exception>
#include <string>

namespace accrue {

/// The part of an exception's message that describes the failure, for people. libtorch's messages
/// end with a stack trace, and TorchScript's begin with one; Gloo's are between a place in its
/// sources and general advice.
std::string cause_of(const std::exception& error);

}  // namespace accrue
