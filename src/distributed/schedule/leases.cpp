#include "distributed/schedule/leases.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <queue>
#include <set>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::distributed {
namespace {

constexpr double kIdleGain = 0.9;
/// The relative error assumed for a pace of fewer than three windows, and the smallest error of
/// any.
constexpr double kErrorOfFew = 0.1, kLeastError = 0.005;
constexpr std::size_t kListedRanks = 8;

double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// A rank while units are assigned.
struct Share {
  std::int64_t rank = 0;
  std::int64_t grain = 1;
  double seconds = 0;  ///< for a unit
  double start = 0;    ///< when it is free, from now
  std::int64_t count = 0;
  bool takes_part = true;

  double end(std::int64_t units) const { return start + static_cast<double>(units) * seconds; }
};

void refuse_worker(const std::string& expected, const std::string& received) {
  throw usage_error("divide work among ranks", expected, received,
                    "the ranks of this run and their measured paces");
}

void require_valid(const std::vector<Worker>& workers) {
  if (std::ranges::none_of(workers, &Worker::takes_part))
    refuse_worker("at least one rank that works", "none");
  std::set<std::int64_t> ranks;
  for (const Worker& worker : workers) {
    const std::string name = "rank " + std::to_string(worker.rank);
    if (!ranks.insert(worker.rank).second) refuse_worker("each rank once", name + " twice");
    if (worker.grain < 1)
      refuse_worker("a grain of at least 1", std::to_string(worker.grain) + " of " + name);
    const auto is_valid = [](double value) { return std::isfinite(value) && value >= 0; };
    if (!is_valid(worker.pace.seconds) || !is_valid(worker.pace.error))
      refuse_worker("a pace of 0 seconds or more",
                    std::to_string(worker.pace.seconds) + " of " + name);
  }
}

struct Paces {
  std::vector<double> seconds;  ///< by worker: the paces that determine shares
  std::string origin;           ///< their source, in words
};

Paces paces_of(const std::vector<Worker>& workers) {
  std::vector<double> known;
  for (const Worker& worker : workers)
    if (worker.takes_part && worker.pace.seconds > 0) known.push_back(worker.pace.seconds);
  if (known.empty())
    return {std::vector<double>(workers.size(), 0), "equal shares, as no speed is known yet"};

  const double middle = lower_median(known);
  Paces result{{}, "equal speeds as far as measured"};
  for (const Worker& worker : workers) {
    const auto [seconds, error] = worker.pace;
    const bool differs = worker.takes_part && seconds > 0 &&
                         std::max(seconds / middle, middle / seconds) > 1 + kErrors * error;
    if (differs) result.origin = "by measured speed";
    result.seconds.push_back(differs ? seconds : middle);
  }
  return result;
}

/// Shares without units yet, in order of rank.
std::vector<Share> shares_of(const std::vector<Worker>& workers, const Paces& paces) {
  std::vector<Share> shares;
  for (std::size_t i = 0; i < workers.size(); ++i)
    shares.push_back({.rank = workers[i].rank,
                      .grain = workers[i].grain,
                      .seconds = paces.seconds[i],
                      .takes_part = workers[i].takes_part});
  std::ranges::sort(shares, {}, &Share::rank);
  return shares;
}

void give_equally(std::vector<Share>& shares, std::int64_t units) {
  const std::int64_t ranks = std::ranges::count(shares, true, &Share::takes_part);
  std::int64_t place = 0;
  for (Share& share : shares) {
    if (!share.takes_part) continue;
    share.count = units / ranks + (place < units % ranks ? 1 : 0);
    ++place;
  }
}

/// Assigns whole grains, each to the rank that finishes it first, the lowest of several, as long as
/// a whole grain is left for one of them. Returns the remaining units.
std::int64_t give_whole_grains(std::vector<Share>& shares, std::int64_t units) {
  using Entry = std::pair<double, std::size_t>;  // when a rank is done with its next grain
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> next;
  std::int64_t largest = 0;
  const auto wait = [&](std::size_t at) {
    next.emplace(shares[at].end(shares[at].count + shares[at].grain), at);
  };
  for (std::size_t at = 0; at < shares.size(); ++at) {
    if (!shares[at].takes_part) continue;
    largest = std::max(largest, shares[at].grain);
    wait(at);
  }
  while (units >= largest && units > 0) {
    const std::size_t first = next.top().second;
    next.pop();
    shares[first].count += shares[first].grain;
    units -= shares[first].grain;
    wait(first);
  }
  return units;
}

/// Assigns units grain by grain to the rank that finishes first, the lowest of several.
void give_by_speed(std::vector<Share>& shares, std::int64_t units) {
  for (Share& share : shares) share.count = 0;
  units = give_whole_grains(shares, units);
  while (units > 0) {
    Share& next = *std::ranges::min_element(shares, {}, [&](const Share& share) {
      return share.takes_part ? share.end(share.count + std::min(share.grain, units))
                              : std::numeric_limits<double>::infinity();
    });
    const std::int64_t given = std::min(next.grain, units);
    next.count += given;
    units -= given;
  }
}

double slowest_end(const std::vector<Share>& shares) {
  double last = 0;
  for (const Share& share : shares)
    if (share.count > 0) last = std::max(last, share.end(share.count));
  return last;
}

std::string counts_in_words(const std::vector<Share>& shares) {
  if (shares.size() > kListedRanks) {
    const auto [least, most] = std::ranges::minmax_element(shares, {}, &Share::count);
    return std::to_string(least->count) + " to " + std::to_string(most->count) + " each on " +
           std::to_string(shares.size()) + " ranks";
  }
  std::string text;
  for (const Share& share : shares)
    text += (text.empty() ? "" : " + ") + std::to_string(share.count);
  return text;
}

std::string seconds_in_words(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", seconds);
  return text;
}

std::string reason_of(const std::vector<Share>& shares, const Division& division,
                      const std::string& origin) {
  std::string text = counts_in_words(shares) + ": " + origin;
  if (division.seconds > 0)
    text += ", done in " + seconds_in_words(division.seconds) +
            " (as many each: " + seconds_in_words(division.equal_seconds) + ")";
  return text;
}

std::vector<Lease> in_order(const std::vector<Share>& shares) {
  std::vector<Lease> leases;
  std::int64_t begin = 0;
  for (const Share& share : shares) {
    leases.push_back({share.rank, begin, share.count});
    begin += share.count;
  }
  return leases;
}

Division division_of(std::int64_t units, std::vector<Share> shares, const std::string& origin) {
  Division division;
  give_equally(shares, units);
  division.equal_seconds = slowest_end(shares);
  const bool any_known = shares.front().seconds > 0;
  if (any_known) give_by_speed(shares, units);
  division.seconds = slowest_end(shares);
  division.leases = in_order(shares);
  division.reason = reason_of(shares, division, origin);
  return division;
}

std::vector<std::int64_t> left_of(const LedgerView& ledger,
                                  const std::vector<RunningMicroBatch>& running) {
  std::vector<std::int64_t> left;
  for (const LedgerEntry& entry : ledger.entries) {
    const bool is_open = entry.status == MicroStatus::pending || entry.status == MicroStatus::lost;
    const bool is_run = std::ranges::any_of(running, [&](const RunningMicroBatch& one) {
      return one.micro_batch == entry.micro.index;
    });
    if (is_open && !is_run) left.push_back(entry.micro.index);
  }
  return left;
}

/// Corrects shares by the ranks' present work, which shows their pace and when they are free.
void account_for(const std::vector<RunningMicroBatch>& running, double now,
                 std::vector<Share>& shares) {
  for (Share& share : shares)
    for (const RunningMicroBatch& one : running) {
      if (one.rank != share.rank || share.seconds == 0) continue;
      const double elapsed = std::max(0.0, now - one.since);
      share.seconds = std::max(share.seconds, elapsed);
      share.start += share.seconds - elapsed;
    }
}

}  // namespace

PaceEstimate::PaceEstimate(std::vector<double> observed) : observed_(std::move(observed)) {
  for (const double seconds : observed_)
    if (!std::isfinite(seconds) || seconds <= 0)
      refuse_worker("observed seconds above 0", std::to_string(seconds));
}

void PaceEstimate::observe(std::int64_t units, double seconds) {
  const double known = pace().seconds;
  const double observed = units > 0 ? seconds / static_cast<double>(units) : kIdleGain * known;
  if (!std::isfinite(observed) || observed <= 0) return;
  observed_.push_back(observed);
  if (observed_.size() > kWindows) observed_.erase(observed_.begin());
}

Pace PaceEstimate::pace() const {
  if (observed_.empty()) return {};
  const double middle = lower_median(observed_);
  if (observed_.size() < 3) return {middle, kErrorOfFew};
  std::vector<double> deviations;
  for (const double seconds : observed_) deviations.push_back(std::abs(seconds - middle));
  // The factor 1.4826 makes a standard deviation of it; 1.2533 is the error of the median relative
  // to that of the mean.
  const double error =
      1.4826 * 1.2533 * lower_median(deviations) / std::sqrt(static_cast<double>(observed_.size()));
  return {middle, std::max(kLeastError, error / middle)};
}

Division divide(std::int64_t units, const std::vector<Worker>& workers) {
  require_valid(workers);
  if (units < 0) refuse_worker("0 units or more", std::to_string(units));
  const Paces paces = paces_of(workers);
  return division_of(units, shares_of(workers, paces), paces.origin);
}

std::span<const std::int64_t> Leases::of(std::int64_t rank) const {
  const auto lease = std::ranges::find(division.leases, rank, &Lease::rank);
  if (lease == division.leases.end()) return {};
  return std::span(micro_batches)
      .subspan(static_cast<std::size_t>(lease->begin), static_cast<std::size_t>(lease->count));
}

Leases decide(const LedgerView& ledger, const std::vector<Worker>& workers, double now,
              const std::vector<RunningMicroBatch>& running) {
  require_valid(workers);
  for (const Worker& worker : workers)
    if (worker.grain != 1)
      refuse_worker("a grain of 1, as units are micro-batches", std::to_string(worker.grain));
  const Paces paces = paces_of(workers);
  std::vector<Share> shares = shares_of(workers, paces);
  account_for(running, now, shares);

  Leases leases{left_of(ledger, running), {}};
  leases.division = division_of(static_cast<std::int64_t>(leases.micro_batches.size()),
                                std::move(shares), paces.origin);
  return leases;
}

}  // namespace accrue::distributed
