#include "distributed/reduce/status_row.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "accrue/core/error.h"
#include "distributed/group/membership/rank_list.h"

namespace accrue::distributed {
namespace {

constexpr std::size_t kHead = 8;

/// The number that a rank wrote as fp64, which can hold all integers up to 2^53.
template <class Number = std::int64_t>
Number whole(double value) {
  constexpr double exact = std::int64_t{1} << 53;
  const bool is_whole = std::abs(value) <= exact && std::trunc(value) == value;
  if (is_whole && std::in_range<Number>(static_cast<std::int64_t>(value)))
    return static_cast<Number>(value);
  throw runtime_error("reduce gradients over ranks", "whole numbers where ranks count",
                      std::to_string(value), "the same build of accrue on all ranks");
}

std::string listed(const std::vector<RankStatus>& ranks,
                   const std::function<bool(const RankStatus&)>& belongs) {
  std::string text;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (belongs(ranks[rank])) append_rank(text, static_cast<std::int64_t>(rank));
  return text;
}

void require_one_window(const std::vector<RankStatus>& ranks) {
  if (std::ranges::all_of(
          ranks, [&](const RankStatus& rank) { return rank.window == ranks.front().window; }))
    return;
  std::string received;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    received += (rank == 0 ? "window " : ", window ") + std::to_string(ranks[rank].window) +
                " on rank " + std::to_string(rank);
  throw runtime_error("reduce gradients over ranks", "the same window on all of them", received,
                      "resuming all ranks from one checkpoint");
}

void decide(const std::vector<RankStatus>& ranks, Agreed& agreed) {
  using Verdict = Agreed::Verdict;
  if (const auto lost = listed(ranks, [](const RankStatus& r) { return r.is_lost; });
      !lost.empty()) {
    agreed.verdict = Verdict::dropped;
    agreed.reason = "the window was lost on " + lost;
    return;
  }
  const auto changed = listed(ranks, [](const RankStatus& r) { return r.is_void; });
  const auto smaller = listed(ranks, [&](const RankStatus& r) { return r.units != agreed.units; });
  if (changed.empty() && smaller.empty()) {
    if (std::ranges::any_of(ranks, [](const RankStatus& r) { return r.left > 0; }))
      agreed.verdict = Verdict::unfinished;
    return;
  }
  agreed.verdict = Verdict::again;
  agreed.reason = changed.empty() ? "the fixed-point units of " + smaller + " were too small"
                                  : "the sums of " + changed + " changed in their reduction";
}

}  // namespace

at::Tensor to_row(const RankStatus& status) {
  std::vector<double> row{static_cast<double>(status.window),
                          status.weight,
                          status.loss_sum,
                          static_cast<double>(status.micro_batches),
                          static_cast<double>(status.quarantined),
                          status.is_lost ? 1.0 : 0.0,
                          status.is_void ? 1.0 : 0.0,
                          static_cast<double>(status.left)};
  row.insert(row.end(), status.rank_sums.begin(), status.rank_sums.end());
  row.insert(row.end(), status.figures.begin(), status.figures.end());
  row.insert(row.end(), status.loss_sums.begin(), status.loss_sums.end());
  row.insert(row.end(), status.contributions.begin(), status.contributions.end());
  row.insert(row.end(), status.units.begin(), status.units.end());
  return at::tensor(row, at::kDouble);
}

RankStatus from_row(const at::Tensor& row, const RankStatus& like) {
  const double* value = row.const_data_ptr<double>();
  RankStatus status{.window = whole(value[0]),
                    .weight = value[1],
                    .loss_sum = value[2],
                    .micro_batches = whole(value[3]),
                    .quarantined = whole(value[4]),
                    .is_lost = value[5] != 0,
                    .is_void = value[6] != 0,
                    .left = whole(value[7])};
  value += kHead;
  const auto take = [&value](std::vector<double>& numbers, std::size_t count) {
    numbers.assign(value, value + count);
    value += count;
  };
  const auto count = [&value]<class Number>(std::vector<Number>& numbers, std::size_t slots) {
    for (const double* const end = value + slots; value != end; ++value)
      numbers.push_back(whole<Number>(*value));
  };
  take(status.rank_sums, like.rank_sums.size());
  take(status.figures, like.figures.size());
  take(status.loss_sums, like.loss_sums.size());
  count(status.contributions, like.contributions.size());
  count(status.units, like.units.size());
  return status;
}

Agreed agree(const std::vector<RankStatus>& ranks) {
  require_one_window(ranks);
  Agreed agreed{.contributions = std::vector<std::int64_t>(ranks.front().contributions.size(), 0),
                .units = ranks.front().units};
  WindowTotals& totals = agreed.totals;
  agreed.loss_sums.assign(ranks.front().loss_sums.size(), 0);
  totals.rank_sums.assign(ranks.front().rank_sums.size(), 0);
  for (const RankStatus& rank : ranks) {
    totals.weight += rank.weight;
    totals.loss_sum += rank.loss_sum;
    totals.micro_batches += rank.micro_batches;
    totals.quarantined += rank.quarantined;
    totals.of_ranks.push_back(
        {.weight = rank.weight, .quarantined = rank.quarantined, .figures = rank.figures});
    std::ranges::transform(totals.rank_sums, rank.rank_sums, totals.rank_sums.begin(),
                           std::plus<>());
    std::ranges::transform(agreed.loss_sums, rank.loss_sums, agreed.loss_sums.begin(),
                           std::plus<>());
    std::ranges::transform(agreed.contributions, rank.contributions, agreed.contributions.begin(),
                           std::plus<>());
    std::ranges::transform(agreed.units, rank.units, agreed.units.begin(),
                           [](int a, int b) { return std::max(a, b); });
  }
  decide(ranks, agreed);
  return agreed;
}

}  // namespace accrue::distributed
