#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "data/json/line_problem.h"

namespace accrue::data {

/// The number of tokens of each of the consecutive samples in the ids of a line; or the problem
/// with the list that states it.
using PackedLengths = std::variant<std::vector<std::int64_t>, LineProblem>;

/// From "position_ids", which count from 0, and from 0 again where another sample begins.
PackedLengths lengths_by_positions(std::span<const std::int64_t> positions);

/// From "seq_lengths": these are the lengths.
PackedLengths lengths_by_statement(std::span<const std::int64_t> lengths, std::int64_t tokens);

}  // namespace accrue::data
