#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accrue {

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`: the restricted
/// Damerau-Levenshtein distance (Damerau, Communications of the ACM 7(3), 1964).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the fewest edits, the first of equals; `candidates` must not be empty.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);
/// nearest(), if it is at most `edits` away; none otherwise, or without candidates.
std::optional<std::string> nearest_within(std::size_t edits, std::string_view name,
                                          const std::vector<std::string>& candidates);
/// The candidate of which `name` is probably a misspelling: an edit for each four of its letters,
/// and one at least. None for a single letter.
std::optional<std::string> misspelt(std::string_view name,
                                    const std::vector<std::string>& candidates);

}  // namespace accrue
