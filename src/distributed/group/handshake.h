#pragma once

#include <string>
#include <utility>
#include <vector>

#include "accrue/core/parameter.h"
#include "accrue/distributed/group.h"

namespace accrue::distributed {

/// What a rank says of itself, by name: the version, each config key, the data, the model. All
/// ranks are to say the same.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// What differs from rank 0's facts, in words: each name with both values and the ranks that have
/// the other one; empty if nothing differs. A fact that only one of them has differs.
std::string differing_facts(const std::vector<Facts>& by_rank);

/// Facts as ranks tell them each other.
std::string to_text(const Facts& facts);
/// Reads back what to_text() wrote. Throws a runtime Error if that is something else.
Facts facts_from_text(const std::string& text);

/// Compares the ranks' facts. Throws on all of them the same usage Error that names what differs.
void shake_hands(Group& group, std::string_view topic, const Facts& mine);

/// Names, shapes and dtypes of parameters, and their values, as short texts that differ where these
/// differ (FNV-1a, 64 bits).
std::string shape_digest(const NamedParameters& parameters);
std::string value_digest(const NamedParameters& parameters);

}  // namespace accrue::distributed
