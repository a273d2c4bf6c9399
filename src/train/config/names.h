#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accrue::train {

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`: the restricted
/// Damerau-Levenshtein distance.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the fewest edits; `candidates` is not empty.
std::string nearest(const std::string& name, const std::vector<std::string>& candidates);

/// The known key that an unknown one was most likely meant to be: the key's own name counts more
/// than its section.
std::string nearest_key(const std::string& name);

/// What a key of another system is called here, as a piece of advice; none where the last part of
/// `path` is not such a name.
std::optional<std::string> translation(const std::string& path);

}  // namespace accrue::train
