#pragma once

#include <exception>

#include "accrue/distributed/group.h"

namespace accrue::distributed {

/// Calls `act`. If it throws, the other ranks of the group, if there is one, end with the same
/// reason.
template <class Act>
auto among_ranks(Group* group, const Act& act) {
  try {
    return act();
  } catch (const std::exception& error) {
    if (group != nullptr) group->fail(error.what());
    throw;
  }
}

}  // namespace accrue::distributed
