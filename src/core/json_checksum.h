#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace accrue {

/// The text of `object` with a member "checksum" over all others, for files that programs read
/// again: it detects accidental changes (Checksum). Invalid UTF-8 is replaced.
std::string text_with_checksum(nlohmann::json object);

/// Whether an object has the checksum of text_with_checksum(), whatever its layout. An object
/// without the member, from earlier versions, is accepted.
bool has_its_checksum(nlohmann::json object);

}  // namespace accrue
