#pragma once

#include <exception>

#include "accrue/distributed/group.h"

namespace accrue::train {

/// Calls `act`. Where it throws, the other ranks of the group, if there is one, end with that
/// reason.
template <class Act>
auto among_ranks(distributed::Group* group, const Act& act) {
  try {
    return act();
  } catch (const std::exception& error) {
    if (group != nullptr) group->fail(error.what());
    throw;
  }
}

}  // namespace accrue::train
