#include "train/ranks/state_parts.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

std::int64_t end_of(const ElementRange& range) { return range.begin + range.elements; }

using PartsOf = StateParts RankHoldings::*;

/// Whether a rank has some of a tensor after a step.
bool has_some(const StateParts& parts, std::int64_t step, std::size_t tensor) {
  return parts.step == step && parts.ranges.at(tensor).elements > 0;
}

bool has(const StateParts& parts, std::int64_t step, std::size_t tensor, std::int64_t element) {
  if (!has_some(parts, step, tensor)) return false;
  const ElementRange& range = parts.ranges[tensor];
  return range.begin <= element && element < end_of(range);
}

/// Finds the first rank that has an element of a tensor. The ranks are searched once, not for each
/// wanted element: a thousand ranks want a thousand ranges of each tensor.
class FirstHolders {
 public:
  FirstHolders(const std::vector<RankHoldings>& ranks, PartsOf parts, std::int64_t step,
               std::size_t tensor) {
    std::vector<Boundary> boundaries;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (!has_some(ranks[rank].*parts, step, tensor)) continue;
      const ElementRange& range = (ranks[rank].*parts).ranges[tensor];
      boundaries.push_back({range.begin, static_cast<std::int64_t>(rank), true});
      boundaries.push_back({end_of(range), static_cast<std::int64_t>(rank), false});
    }
    std::ranges::sort(boundaries, {}, &Boundary::element);
    std::set<std::int64_t> holders;
    for (auto next = boundaries.begin(); next != boundaries.end();) {
      const std::int64_t element = next->element;
      for (; next != boundaries.end() && next->element == element; ++next)
        if (next->begins)
          holders.insert(next->rank);
        else
          holders.erase(next->rank);
      stretches_.push_back(
          {element, holders.empty() ? std::nullopt : std::optional(*holders.begin())});
    }
  }

  std::optional<std::int64_t> of(std::int64_t element) const {
    const auto after = std::ranges::upper_bound(stretches_, element, {}, &Stretch::begin);
    return after == stretches_.begin() ? std::nullopt : std::prev(after)->first;
  }

 private:
  /// Where a rank's range begins or has ended.
  struct Boundary {
    std::int64_t element = 0, rank = 0;
    bool begins = false;
  };
  /// From an element to the next stretch's, the same rank is the first that has them, or none is.
  struct Stretch {
    std::int64_t begin = 0;
    std::optional<std::int64_t> first;
  };
  std::vector<Stretch> stretches_;
};

/// The rank that gives an element, and where its part ends.
struct SourceRank {
  std::int64_t rank = 0;
  std::int64_t end = 0;
  bool is_replica = false;
};

/// Finds the sources of one step's state of a tensor.
class SourceRanks {
 public:
  SourceRanks(const std::vector<RankHoldings>& ranks, std::int64_t step, std::size_t tensor)
      : ranks_(ranks),
        step_(step),
        tensor_(tensor),
        owners_(ranks, &RankHoldings::own, step, tensor),
        replicas_(ranks, &RankHoldings::replica, step, tensor) {}

  std::optional<SourceRank> of(std::int64_t element, std::int64_t receiver) const {
    if (const auto owner = source(&RankHoldings::own, owners_, element, receiver)) return owner;
    return source(&RankHoldings::replica, replicas_, element, receiver);
  }

 private:
  std::optional<SourceRank> source(PartsOf parts, const FirstHolders& first, std::int64_t element,
                                   std::int64_t receiver) const {
    const bool is_there = has(at(receiver).*parts, step_, tensor_, element);
    const std::optional<std::int64_t> rank = is_there ? std::optional(receiver) : first.of(element);
    if (!rank) return std::nullopt;
    return SourceRank{*rank, end_of((at(*rank).*parts).ranges[tensor_]),
                      parts == &RankHoldings::replica};
  }
  const RankHoldings& at(std::int64_t rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  const std::vector<RankHoldings>& ranks_;
  std::int64_t step_;
  std::size_t tensor_;
  FirstHolders owners_, replicas_;
};

/// Adds transfers that bring the range to `receiver`; false if no rank has some of it.
bool bring(const SourceRanks& sources, std::size_t tensor, std::int64_t receiver,
           const ElementRange& range, Division& division) {
  for (std::int64_t element = range.begin; element < end_of(range);) {
    const std::optional<SourceRank> source = sources.of(element, receiver);
    if (!source) return false;
    const std::int64_t end = std::min(source->end, end_of(range));
    division.transfers.push_back({tensor, source->rank, receiver, {element, end - element}});
    division.needs_replicas = division.needs_replicas || source->is_replica;
    element = end;
  }
  return true;
}

std::optional<Division> divide_of_step(const std::vector<RankHoldings>& ranks, std::int64_t step) {
  Division division{.step = step, .transfers = {}};
  for (std::size_t tensor = 0; tensor < ranks.front().wanted.size(); ++tensor) {
    const SourceRanks sources(ranks, step, tensor);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      if (!bring(sources, tensor, static_cast<std::int64_t>(rank), ranks[rank].wanted.at(tensor),
                 division))
        return std::nullopt;
  }
  return division;
}

void append(std::vector<std::int64_t>& numbers, const std::vector<ElementRange>& ranges) {
  for (const ElementRange& range : ranges)
    numbers.insert(numbers.end(), {range.begin, range.elements});
}

void expect_ranges(bool holds) {
  if (!holds)
    throw runtime_error("divide the optimizer's state among other ranks",
                        "ranges of its tensors, as many from each rank", "something else",
                        "the same build of accrue on all ranks");
}

ElementRange range_of(std::int64_t begin, std::int64_t elements) {
  expect_ranges(begin >= 0 && elements >= 0 &&
                elements <= std::numeric_limits<std::int64_t>::max() - begin);
  return {begin, elements};
}

/// The size of a tensor in a row of numbers: a range of each kind.
constexpr std::int64_t kKinds = 3;
constexpr std::int64_t kSteps = 3;

}  // namespace

std::optional<Division> plan_redistribution(const std::vector<RankHoldings>& ranks) {
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
  expect_ranges(std::ssize(numbers) >= kSteps &&
                (std::ssize(numbers) - kSteps) % (2 * kKinds) == 0);
  RankHoldings holdings{
      .parameters = numbers.at(0), .own = {numbers.at(1), {}}, .replica = {numbers.at(2), {}}};
  const std::int64_t tensors = (std::ssize(numbers) - kSteps) / (2 * kKinds);
  auto next = numbers.begin() + kSteps;
  for (std::vector<ElementRange>* ranges :
       {&holdings.own.ranges, &holdings.replica.ranges, &holdings.wanted})
    for (std::int64_t tensor = 0; tensor < tensors; ++tensor, next += 2)
      ranges->push_back(range_of(next[0], next[1]));
  for (StateParts* parts : {&holdings.own, &holdings.replica})
    if (parts->step == StateParts::kNone) parts->ranges.clear();
  return holdings;
}

}  // namespace accrue::train
