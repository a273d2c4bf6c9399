#pragma once

#include "accrue/distributed/launch.h"
#include "distributed/group/store/store_client.h"

namespace accrue::distributed {

/// Writes into a store that this process hosts to which run it belongs. Nothing of it is sealed: it
/// separates runs that meet by mistake, and is not a protection.
void state_owner(StoreClient& client, const Launch& launch);

/// Whether a store that rank 0 hosts belongs to the run of `launch`; false while its host has not
/// stated it. Throws a usage Error that names both runs if it belongs to another one.
bool is_owned_by(StoreClient& client, const Launch& launch);

}  // namespace accrue::distributed
