#pragma once

#include "accrue/distributed/launch.h"
#include "distributed/group/store_client.h"

namespace accrue::distributed {

/// Writes into a store that this process hosts which run it is of. Nothing of it is sealed: it
/// parts runs that meet by mistake, and keeps nobody out.
void state_owner(StoreClient& client, const Launch& launch);

/// Whether a store that rank 0 hosts is of the run that `launch` describes; false while its host
/// has not stated it. Throws a usage Error that names both runs if it is another one's.
bool is_owned_by(StoreClient& client, const Launch& launch);

}  // namespace accrue::distributed
