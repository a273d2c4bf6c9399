#include "distributed/group/socket.h"

#include <sys/socket.h>

#include <cerrno>

namespace accrue::distributed {

Socket::Socket(const addrinfo& address, int flags)
    : descriptor_(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | flags,
                           address.ai_protocol)) {}

void Socket::close() noexcept {
  if (descriptor_ < 0) return;
  const int reason = errno;
  ::close(release());
  errno = reason;
}

}  // namespace accrue::distributed
