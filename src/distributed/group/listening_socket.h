#pragma once

#include <cstdint>
#include <string>

namespace accrue::distributed {

/// The descriptor of a TCP socket that is bound to the interface that `host` names, and to no
/// other. The caller closes it, or hands it on. Throws a usage Error where `host` is not an address
/// of this machine, and a runtime Error where the port is taken.
int listening_socket(const std::string& host, std::uint16_t port);

}  // namespace accrue::distributed
