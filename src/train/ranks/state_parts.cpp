#include "train/ranks/state_parts.h"

#include <algorithm>
#include <set>

namespace accrue::train {
namespace {

std::int64_t end_of(const ElementRange& range) { return range.begin + range.elements; }

bool has(const StateParts& parts, std::int64_t step, std::size_t tensor, std::int64_t element) {
  if (parts.step != step) return false;
  const ElementRange& range = parts.ranges.at(tensor);
  return range.begin <= element && element < end_of(range);
}

/// Who gives an element, and how far its part goes.
struct Giver {
  std::int64_t rank = 0;
  std::int64_t end = 0;
  bool is_replica = false;
};

/// Finds givers of one step's state.
class Givers {
 public:
  Givers(const std::vector<RankHoldings>& ranks, std::int64_t step) : ranks_(ranks), step_(step) {}

  std::optional<Giver> of(std::size_t tensor, std::int64_t element, std::int64_t receiver) const {
    for (const auto parts : {&RankHoldings::own, &RankHoldings::replica}) {
      const auto gives = [&](const RankHoldings& rank) {
        return has(rank.*parts, step_, tensor, element);
      };
      const auto begin = ranks_.begin();
      auto giver = begin + receiver;
      if (!gives(*giver)) giver = std::find_if(begin, ranks_.end(), gives);
      if (giver == ranks_.end()) continue;
      return Giver{giver - begin, end_of(((*giver).*parts).ranges[tensor]),
                   parts == &RankHoldings::replica};
    }
    return std::nullopt;
  }

 private:
  const std::vector<RankHoldings>& ranks_;
  std::int64_t step_;
};

/// Adds what brings `receiver` the range; false where nobody has some of it.
bool bring(const Givers& givers, std::size_t tensor, std::int64_t receiver,
           const ElementRange& range, Division& division) {
  for (std::int64_t element = range.begin; element < end_of(range);) {
    const std::optional<Giver> giver = givers.of(tensor, element, receiver);
    if (!giver) return false;
    const std::int64_t end = std::min(giver->end, end_of(range));
    division.passages.push_back({tensor, giver->rank, receiver, {element, end - element}});
    division.needs_replicas = division.needs_replicas || giver->is_replica;
    element = end;
  }
  return true;
}

std::optional<Division> divide_of_step(const std::vector<RankHoldings>& ranks, std::int64_t step) {
  const Givers givers(ranks, step);
  Division division{.step = step, .passages = {}};
  for (std::size_t tensor = 0; tensor < ranks.front().wanted.size(); ++tensor)
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      if (!bring(givers, tensor, static_cast<std::int64_t>(rank), ranks[rank].wanted.at(tensor),
                 division))
        return std::nullopt;
  return division;
}

void append(std::vector<std::int64_t>& numbers, const std::vector<ElementRange>& ranges) {
  for (const ElementRange& range : ranges)
    numbers.insert(numbers.end(), {range.begin, range.elements});
}

/// What a tensor takes in a row of numbers: a range of each kind.
constexpr std::int64_t kKinds = 3;
constexpr std::int64_t kSteps = 3;

}  // namespace

std::optional<Division> divide_anew(const std::vector<RankHoldings>& ranks) {
  std::set<std::int64_t, std::greater<>> steps;
  for (const RankHoldings& rank : ranks) steps.insert(rank.parameters);
  steps.erase(StateParts::kNone);
  for (const std::int64_t step : steps)
    if (auto division = divide_of_step(ranks, step)) return division;
  return std::nullopt;
}

std::vector<std::int64_t> to_numbers(const RankHoldings& holdings) {
  std::vector<std::int64_t> numbers{holdings.parameters, holdings.own.step, holdings.replica.step};
  const std::vector<ElementRange> nothing(holdings.wanted.size());
  for (const StateParts* parts : {&holdings.own, &holdings.replica})
    append(numbers, parts->step == StateParts::kNone ? nothing : parts->ranges);
  append(numbers, holdings.wanted);
  return numbers;
}

RankHoldings holdings_from_numbers(const std::vector<std::int64_t>& numbers) {
  RankHoldings holdings{
      .parameters = numbers.at(0), .own = {numbers.at(1), {}}, .replica = {numbers.at(2), {}}};
  const std::int64_t tensors = (std::ssize(numbers) - kSteps) / (2 * kKinds);
  auto next = numbers.begin() + kSteps;
  for (std::vector<ElementRange>* ranges :
       {&holdings.own.ranges, &holdings.replica.ranges, &holdings.wanted})
    for (std::int64_t tensor = 0; tensor < tensors; ++tensor, next += 2)
      ranges->push_back({next[0], next[1]});
  for (StateParts* parts : {&holdings.own, &holdings.replica})
    if (parts->step == StateParts::kNone) parts->ranges.clear();
  return holdings;
}

}  // namespace accrue::train
