#include "distributed/schedule/window_shares.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "accrue/core/error.h"
#include "core/digits.h"

namespace accrue::distributed {
namespace {

/// Seconds until the last rank of known speed is done.
double seconds_of(const Division& division, const std::vector<Worker>& workers) {
  double last = 0;
  for (std::size_t rank = 0; rank < workers.size(); ++rank)
    last = std::max(last,
                    static_cast<double>(division.leases[rank].count) * workers[rank].pace.seconds);
  return last;
}

bool is_worthwhile(const Division& fresh, const Division& current,
                   const std::vector<Worker>& workers) {
  double gain = WindowShares::kWorthwhile;
  for (const Worker& worker : workers) gain = std::max(gain, kErrors * worker.pace.error);
  return seconds_of(current, workers) > (1 + gain) * seconds_of(fresh, workers);
}

bool are_equal(const std::vector<std::int64_t>& sizes) {
  return std::ranges::all_of(sizes, [&](std::int64_t size) { return size == sizes.front(); });
}

/// ", rank 1 works 50% of the time, rank 2 pauses"; empty if no rank is limited.
std::string limits_in_words(const std::vector<double>& allowed) {
  std::string text;
  for (std::size_t rank = 0; rank < allowed.size(); ++rank) {
    if (allowed[rank] == 1) continue;
    text += ", rank " + std::to_string(rank);
    text += allowed[rank] == 0
                ? " pauses"
                : " works " + std::to_string(std::lround(100 * allowed[rank])) + "% of the time";
  }
  return text;
}

}  // namespace

WindowShares::WindowShares(std::int64_t rank, std::vector<RankPace> ranks, bool by_speed)
    : rank_(rank), by_speed_(by_speed), paces_(ranks.size()), allowed_(ranks.size(), 1) {
  for (const RankPace& one : ranks) micro_batches_.push_back(one.micro_batch);
  if (are_equal(micro_batches_)) unit_ = micro_batches_.front();
  followed_ = workers();  // no speed is known yet
  for (std::size_t i = 0; i < ranks.size(); ++i)
    paces_[i] = PaceEstimate(std::move(ranks[i].seconds_per_sample));
}

std::vector<Worker> WindowShares::workers() const {
  std::vector<Worker> workers;
  for (std::size_t rank = 0; rank < paces_.size(); ++rank) {
    Pace pace;
    if (by_speed_ && paces_[rank].observed().size() >= kFewestWindows) pace = paces_[rank].pace();
    const double allowed = allowed_[rank];
    pace.seconds *= static_cast<double>(unit_) / (allowed > 0 ? allowed : 1);
    workers.push_back({.rank = static_cast<std::int64_t>(rank),
                       .pace = pace,
                       .grain = micro_batches_[rank] / unit_,
                       .takes_part = allowed > 0});
  }
  return workers;
}

/// Whether the set of ranks that work is another than the one that windows are divided among now.
bool WindowShares::others_take_part(const std::vector<Worker>& now) const {
  return !std::ranges::equal(now, followed_, {}, &Worker::takes_part, &Worker::takes_part);
}

std::string WindowShares::describe(std::int64_t units, const Division& division) const {
  return std::to_string(units) + (are_equal(micro_batches_) ? " micro-batches" : " samples") +
         " by rank " + division.reason + limits_in_words(allowed_);
}

Lease WindowShares::share(std::int64_t samples) {
  const std::int64_t units = (samples + unit_ - 1) / unit_;
  const std::vector<Worker> now = workers();
  const Division fresh = divide(units, now);
  Division division = divide(units, followed_);
  change_.reset();
  if (!reported_.are_begun()) reported_.begin(units, division);
  if (others_take_part(now) || is_worthwhile(fresh, division, now)) {
    division = fresh;
    followed_ = now;
    if (reported_.take(units, fresh)) change_ = describe(units, fresh);
  }
  const auto at = [&](std::int64_t units_before) {
    return std::min(units_before * unit_, samples);
  };
  samples_ = samples;
  shares_.clear();
  for (const Lease& lease : division.leases) {
    const std::int64_t begin = at(lease.begin), end = at(lease.begin + lease.count);
    shares_.push_back({.rank = lease.rank, .begin = begin, .count = end - begin});
  }
  return shares_[static_cast<std::size_t>(rank_)];
}

std::vector<double> WindowShares::figures(double seconds) const {
  const std::int64_t samples = shares_.empty() ? 0 : shares_[static_cast<std::size_t>(rank_)].count;
  return {static_cast<double>(samples), seconds};
}

/// The ranks that took another share than theirs, with both shares; empty if none did.
std::string WindowShares::other_shares(const std::vector<accum::RankStatement>& of_ranks) const {
  std::string text;
  for (std::size_t rank = 0; rank < paces_.size(); ++rank) {
    const double samples = of_ranks.at(rank).figures.at(0);
    const std::int64_t expected = shares_.empty() ? 0 : shares_[rank].count;
    if (samples != static_cast<double>(expected))
      text += (text.empty() ? "" : ", ") + in_digits(samples) + " in place of " +
              std::to_string(expected) + " on rank " + std::to_string(rank);
  }
  return text;
}

void WindowShares::observe(const std::vector<accum::RankStatement>& of_ranks) {
  if (const std::string others = other_shares(of_ranks); !others.empty())
    throw runtime_error("divide a window among ranks",
                        "parts that make up its " + std::to_string(samples_) + " samples",
                        others + ", as ranks divided it differently",
                        "the same build of accrue on all ranks, and one run.out for them");
  if (shares_.empty()) return;
  const bool is_first = std::exchange(is_first_window_, false);
  for (std::size_t rank = 0; rank < paces_.size(); ++rank)
    if (followed_[rank].takes_part && !(is_first && paces_[rank].observed().empty()))
      paces_[rank].observe(shares_[rank].count, of_ranks[rank].figures.at(1));
}

}  // namespace accrue::distributed
