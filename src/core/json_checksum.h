#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace accrue {

/// The text of `object` with a member "checksum" over all others, for files that programs read
/// again: a change by accident is noticed then (Checksum). Bytes that are no UTF-8 are replaced.
std::string text_with_checksum(nlohmann::json object);

/// Whether an object is as text_with_checksum() wrote it. It may be laid out otherwise. One
/// without the member, as earlier versions wrote it, is taken as it is.
bool has_its_checksum(nlohmann::json object);

}  // namespace accrue
