#pragma once

#include <string>
#include <utility>
#include <vector>

#include "accrue/core/parameter.h"
#include "accrue/distributed/group.h"

namespace accrue::distributed {

/// A rank's description of itself, by name: the version, each config key, the data, the model. All
/// ranks must have the same.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// The differences from rank 0's facts, in words: each name with both values and the ranks that
/// have the other one; empty if nothing differs. A fact of only one of them is a difference.
std::string differing_facts(const std::vector<Facts>& by_rank);

/// Facts as text for exchange between ranks.
std::string to_text(const Facts& facts);
/// Reads back what to_text() wrote. Throws a runtime Error if the text is something else.
Facts facts_from_text(const std::string& text);

/// Compares the ranks' facts. Throws the same usage Error with the differences on all ranks.
void exchange_facts(Group& group, std::string_view topic, const Facts& mine);

/// Names, shapes and dtypes of parameters, and their values, as short texts that differ if these
/// differ (FNV-1a, 64 bits).
std::string shape_digest(const NamedParameters& parameters);
std::string value_digest(const NamedParameters& parameters);

}  // namespace accrue::distributed
