#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accrue/core/rank_slice.h"

namespace accrue::train {

/// A process's parts of the optimizer's state: an element range of each tensor, or nothing at
/// all.
struct StateParts {
  static constexpr std::int64_t kNone = -1;
  std::int64_t step = kNone;         ///< after which the state had these values
  std::vector<ElementRange> ranges;  ///< by tensor, as many on all ranks; none if step is kNone

  bool operator==(const StateParts&) const = default;
};

/// A rank's message to the others before the optimizer's state is divided among them again.
struct RankHoldings {
  std::int64_t parameters = StateParts::kNone;  ///< the step of its parameters
  StateParts own, replica;
  std::vector<ElementRange> wanted;  ///< by tensor: what it is to keep

  bool operator==(const RankHoldings&) const = default;
};

/// Elements of a tensor that move from one rank to another, or stay where they are.
struct StateTransfer {
  std::size_t tensor = 0;
  std::int64_t from = 0, to = 0;
  ElementRange elements;

  bool operator==(const StateTransfer&) const = default;
};

/// How the state reaches the ranks that are to keep it.
struct Division {
  std::int64_t step = 0;                 ///< all ranks continue after this step
  std::vector<StateTransfer> transfers;  ///< by tensor, and in it by receiver
  bool needs_replicas = false;           ///< some of it exists only in a replica
};

/// Divides the state of the latest step for which a rank has the parameters, and the ranks together
/// have everything that is wanted. Elements that a rank already has stay there; the others come
/// from the first rank that has them, and from a replica if no rank keeps them as its own. None if
/// there is no such step. A pure function: all ranks decide alike.
std::optional<Division> plan_redistribution(const std::vector<RankHoldings>& ranks);

/// Holdings as numbers for exchange between ranks, the same count for any of `tensors` tensors.
std::vector<std::int64_t> to_numbers(const RankHoldings& holdings);
/// Reads back what to_numbers() made. Throws a runtime Error if the numbers are something else.
RankHoldings holdings_from_numbers(const std::vector<std::int64_t>& numbers);

}  // namespace accrue::train
