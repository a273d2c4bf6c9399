#include "train/window/window_leases.h"

#include <algorithm>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

/// What ranks exchange of a window: the samples of all, then the seconds of each.
constexpr std::size_t kSamples = 0, kSeconds = 1;
constexpr double kErrors = 2;

/// Seconds until the last rank of known speed is done.
double seconds_of(const distributed::Division& division,
                  const std::vector<distributed::Worker>& workers) {
  double last = 0;
  for (std::size_t rank = 0; rank < workers.size(); ++rank)
    last = std::max(last,
                    static_cast<double>(division.leases[rank].count) * workers[rank].pace.seconds);
  return last;
}

bool is_worthwhile(const distributed::Division& fresh, const distributed::Division& current,
                   const std::vector<distributed::Worker>& workers) {
  double gain = WindowLeases::kWorthwhile;
  for (const distributed::Worker& worker : workers)
    gain = std::max(gain, kErrors * worker.pace.error);
  return seconds_of(current, workers) > (1 + gain) * seconds_of(fresh, workers);
}

}  // namespace

WindowLeases::WindowLeases(std::int64_t rank, std::vector<RankRecord> records, bool by_speed)
    : rank_(rank), records_(std::move(records)), by_speed_(by_speed) {
  paces_.resize(records_.size());
  followed_ = workers();  // no speed is known yet
  for (std::size_t i = 0; i < records_.size(); ++i)
    paces_[i] = distributed::PaceEstimate(std::move(records_[i].seconds_per_sample));
}

/// The samples of a unit: one, or a micro-batch, where shares consist of the undivided window's
/// micro-batches.
std::int64_t WindowLeases::samples_of_unit() const {
  return have_one_size(records_) ? records_.front().micro_batch : 1;
}

std::vector<distributed::Worker> WindowLeases::workers() const {
  const std::int64_t unit = samples_of_unit();
  std::vector<distributed::Worker> workers;
  for (std::size_t rank = 0; rank < records_.size(); ++rank) {
    distributed::Pace pace;
    if (by_speed_ && paces_[rank].observed().size() >= kFewestWindows) pace = paces_[rank].pace();
    pace.seconds *= static_cast<double>(unit);
    workers.push_back({.rank = static_cast<std::int64_t>(rank),
                       .pace = pace,
                       .grain = records_[rank].micro_batch / unit});
  }
  return workers;
}

std::string WindowLeases::describe(std::int64_t units,
                                   const distributed::Division& division) const {
  return std::to_string(units) + (have_one_size(records_) ? " micro-batches" : " samples") +
         " by rank " + division.reason;
}

batch::Range WindowLeases::share(batch::Range window) {
  const std::int64_t unit = samples_of_unit();
  const std::int64_t units = (window.size() + unit - 1) / unit;
  const std::vector<distributed::Worker> now = workers();
  const distributed::Division fresh = distributed::divide(units, now);
  distributed::Division division = distributed::divide(units, followed_);
  change_.reset();
  if (is_worthwhile(fresh, division, now)) {
    division = fresh;
    followed_ = now;
    change_ = describe(units, fresh);
  }
  const auto at = [&](std::int64_t units_before) {
    return std::min(window.begin + units_before * unit, window.end);
  };
  window_ = window;
  shares_.clear();
  for (const distributed::Lease& lease : division.leases)
    shares_.push_back({at(lease.begin), at(lease.begin + lease.count)});
  return shares_[static_cast<std::size_t>(rank_)];
}

std::vector<double> WindowLeases::rank_sums(double seconds) const {
  std::vector<double> rank_sums(kSeconds + records_.size(), 0);
  const auto rank = static_cast<std::size_t>(rank_);
  rank_sums[kSamples] = static_cast<double>(shares_[rank].size());
  rank_sums[kSeconds + rank] = seconds;
  return rank_sums;
}

void WindowLeases::observe(const std::vector<double>& rank_sums) {
  const auto samples = static_cast<std::int64_t>(rank_sums.at(kSamples));
  if (samples != window_.size())
    throw runtime_error("divide a window among ranks",
                        "parts that make up its " + std::to_string(window_.size()) + " samples",
                        std::to_string(samples) + ", as ranks divided it differently",
                        "the same build of accrue on all ranks, and one run.out for them");
  if (std::exchange(is_first_window_, false)) return;
  for (std::size_t rank = 0; rank < paces_.size(); ++rank)
    paces_[rank].observe(shares_[rank].size(), rank_sums.at(kSeconds + rank));
}

std::vector<RankRecord> WindowLeases::records() const {
  std::vector<RankRecord> records = records_;
  for (std::size_t rank = 0; rank < records.size(); ++rank)
    records[rank].seconds_per_sample = paces_[rank].observed();
  return records;
}

}  // namespace accrue::train
