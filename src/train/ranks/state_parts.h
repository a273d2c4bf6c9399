#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accrue/core/rank_slice.h"

namespace accrue::train {

/// What a process has of the optimizer's state: an element range of each tensor, perhaps none of
/// it.
struct StateParts {
  static constexpr std::int64_t kNone = -1;
  std::int64_t step = kNone;         ///< after which the state was so
  std::vector<ElementRange> ranges;  ///< by tensor, as many on all ranks; none if step is kNone

  bool operator==(const StateParts&) const = default;
};

/// What a rank tells the others before the optimizer's state is divided among them anew.
struct RankHoldings {
  std::int64_t parameters = StateParts::kNone;  ///< the step that its parameters are of
  StateParts own, replica;
  std::vector<ElementRange> wanted;  ///< by tensor: what it is to keep from now on

  bool operator==(const RankHoldings&) const = default;
};

/// Elements of a tensor that go from one rank to another, or stay where they are.
struct Passage {
  std::size_t tensor = 0;
  std::int64_t from = 0, to = 0;
  ElementRange elements;

  bool operator==(const Passage&) const = default;
};

/// How the state comes to those who are to keep it.
struct Division {
  std::int64_t step = 0;          ///< the one that all go on after
  std::vector<Passage> passages;  ///< by tensor, and in it by receiver
  bool needs_replicas = false;    ///< some of it is on no rank but in a replica
};

/// Divides the state as of the latest step of which a rank has the parameters, and the ranks
/// together all that is wanted. What a rank has itself stays there; all else comes from the first
/// that has it, and from a replica if no rank keeps it as its own. None if there is no such
/// step. It is pure: all ranks decide alike.
std::optional<Division> divide_anew(const std::vector<RankHoldings>& ranks);

/// Holdings as the numbers that ranks tell each other, as many for any of `tensors` tensors.
std::vector<std::int64_t> to_numbers(const RankHoldings& holdings);
/// Reads back what to_numbers() made. Throws a runtime Error if that is something else.
RankHoldings holdings_from_numbers(const std::vector<std::int64_t>& numbers);

}  // namespace accrue::train
