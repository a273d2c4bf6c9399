#pragma once

#include <string>
#include <vector>

#include "accrue/core/observer.h"

namespace accrue::train {

/// Events as text for exchange between ranks.
std::string to_text(const std::vector<Event>& events);
/// Reads back what to_text() wrote. Throws a runtime Error if the text is something else.
std::vector<Event> events_from_text(const std::string& text);

}  // namespace accrue::train
