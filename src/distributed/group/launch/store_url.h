#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "distributed/group/network/addresses.h"

namespace accrue::distributed {

/// The environment variable that names an existing engine for the ranks' store.
inline constexpr const char* kStore = "ACCRUE_STORE";
inline constexpr const char* kEtcd = "etcd";

/// The part before "://"; empty for an empty text, which stands for the store at MASTER_ADDR.
std::string_view scheme_of(std::string_view url);

/// The places of an engine's members, which are equal: a rank uses any one that answers. At least
/// one; all different.
///
/// Throws a usage Error unless `url`, the value of ACCRUE_STORE, is
/// etcd://HOST:PORT,HOST:PORT,... A port may be left out (2379). IPv6 addresses stand in brackets.
/// Nothing is looked up.
std::vector<Place> members_of(std::string_view url);

/// The first member that other machines may reach, by its form; the first one if there is none.
const Place& outer_member(const std::vector<Place>& members);

}  // namespace accrue::distributed
