#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "data/text/line_problem.h"

namespace accrue::data {

/// How many tokens each of the samples has that stand one behind the other in the ids of a line;
/// or what is wrong with the list that states it.
using PackedLengths = std::variant<std::vector<std::int64_t>, LineProblem>;

/// Of "position_ids", which count from 0, and from 0 again where another sample begins.
PackedLengths lengths_by_positions(std::span<const std::int64_t> positions);

/// Of "seq_lengths": these are the lengths.
PackedLengths lengths_by_statement(std::span<const std::int64_t> lengths, std::int64_t tokens);

}  // namespace accrue::data
