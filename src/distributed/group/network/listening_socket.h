#pragma once

#include <cstdint>
#include <string>

#include "core/descriptor.h"

namespace accrue::distributed {

/// A TCP socket that is bound to the interface of `host`, and to no other. Throws a usage
/// Error if `host` is not an address of this machine, and a runtime Error if the port is in
/// use.
Descriptor listening_socket(const std::string& host, std::uint16_t port);

}  // namespace accrue::distributed
