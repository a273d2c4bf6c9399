#pragma once

#include "distributed/group/store/open_store.h"

namespace accrue::distributed {

/// The c10d::TCPStore that rank 0 or the launcher's agent hosts at MASTER_ADDR and MASTER_PORT.
OpenStore open_tcp_store(const Launch& launch, std::chrono::milliseconds timeout,
                         WaitingNote& note);

}  // namespace accrue::distributed
