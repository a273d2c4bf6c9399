#include "simulation/simulated_run.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "simulation/divided_optimizer.h"
#include "simulation/simulated_group.h"
#include "simulation/window_checks.h"

namespace accrue::simulation {
namespace {

using batch::Range;
using distributed::Member;
using train::RangesOfRanks;

constexpr Seconds kQuarter = 15;  ///< the interval of Outcome::of_quarters

class SimulatedRun {
 public:
  SimulatedRun(const Setting& setting, const Rules& rules)
      : setting_(setting),
        rules_(rules),
        processes_(setting.machines, setting.fates, setting.seed),
        random_(setting.seed + 1),
        group_(setting, rules, processes_, outcome_),
        optimizer_(setting.state_tensors, setting.machines) {
    std::normal_distribution<double> logarithm(0, setting.spread);
    for (int machine = 0; machine < setting.machines; ++machine)
      pace_.push_back(setting.micro_batch_seconds * std::exp(logarithm(random_)));
    for (const Member member : group_.members()) observed_.push_back(known_of(member));
    begin_shares();
  }

  Outcome run() {
    try {
      while (processes_.now() < setting_.length) take_step();
    } catch (const Broken& broken) {
      outcome_.broken = broken.what();
    }
    return finished();
  }

 private:
  Seconds pace_of(Member member) const {
    return pace_[static_cast<std::size_t>(processes_.of(member).machine)];
  }

  /// The known speed of a member that nobody has observed.
  std::vector<double> known_of(Member member) const {
    if (!setting_.knows_speeds) return {};
    return std::vector<double>(distributed::WindowShares::kFewestWindows, pace_of(member));
  }

  /// All ranks hold the same numbers, so one stands for them.
  void begin_shares() {
    std::vector<distributed::RankPace> paces;
    for (const std::vector<double>& observed : observed_)
      paces.push_back({.seconds_per_sample = observed});
    shares_.emplace(0, std::move(paces), setting_.follows_speed);
  }

  Range window() const { return {next_sample_, next_sample_ + setting_.micro_batches}; }

  void take_step() {
    const Seconds began = processes_.now();
    RangesOfRanks done(group_.members().size());
    RangesOfRanks ahead = shares_of(window());
    while (true) {
      const std::vector<Seconds> seconds = run_micro_batches(ahead);
      for (std::size_t rank = 0; rank < done.size(); ++rank)
        done[rank].insert(done[rank].end(), ahead[rank].begin(), ahead[rank].end());
      if (group_.is_whole()) {
        close(done, seconds);
        break;
      }
      group_.find_out_who_is_missing();
      done = change_ranks(done);
      if (processes_.now() > setting_.length) return;  // it may never be done
      ahead = what_is_left(done);
    }
    if (group_.is_asked()) change_ranks({});
    spread_over_quarters(began);
  }

  RangesOfRanks shares_of(const Range& window) {
    timed(outcome_, "share of a window", [&] { return shares_->share(window.size()); });
    RangesOfRanks shares;
    for (const distributed::Lease& lease : shares_->shares()) {
      const std::int64_t begin = window.begin + lease.begin;
      shares.push_back(batch::split({begin, begin + lease.count}, 1));
    }
    return shares;
  }

  /// The part of the window that nobody has done, by the ranks' messages; all of it if the ranks
  /// have done nothing.
  RangesOfRanks what_is_left(const RangesOfRanks& done) {
    if (std::ranges::all_of(done, &std::vector<Range>::empty)) return shares_of(window());
    RangesOfRanks told;
    for (const std::vector<Range>& of_rank : done)
      told.push_back(train::ranges_from_text(train::to_text(of_rank)));
    return timed(outcome_, "what is left of a window",
                 [&] { return rules_.divide_remaining_window(window(), told, 1); });
  }

  /// Runs until all living ranks have done their shares and the window's sums were exchanged, or
  /// would have been; returns the time of each, by rank.
  std::vector<Seconds> run_micro_batches(const RangesOfRanks& ahead) {
    std::normal_distribution<double> noise(1, setting_.noise);
    std::vector<Seconds> seconds, ends;
    for (std::size_t rank = 0; rank < ahead.size(); ++rank) {
      seconds.push_back(static_cast<double>(ahead[rank].size()) * pace_of(group_.members()[rank]) *
                        std::max(0.1, noise(random_)));
      ends.push_back(processes_.now() + seconds.back());
    }
    processes_.advance(arrival_of_all(std::move(ends)) + setting_.costs.close);
    return seconds;
  }

  /// The time when all living ranks are in the collective. A frozen one comes later by that time;
  /// others wait for it up to their limit.
  Seconds arrival_of_all(std::vector<Seconds> ends) {
    std::vector<bool> is_late(ends.size(), false);
    while (true) {
      Seconds last = processes_.now(), last_awake = last;
      for (std::size_t rank = 0; rank < ends.size(); ++rank) {
        const Member member = group_.members()[rank];
        if (!processes_.lives(member)) continue;
        const bool is_frozen = processes_.is_frozen(member);
        if (is_frozen && !is_late[rank])
          ends[rank] = std::max(ends[rank], processes_.now()) + processes_.of(member).frozen_until -
                       processes_.now();
        is_late[rank] = is_frozen;
        last = std::max(last, ends[rank]);
        if (!is_frozen) last_awake = std::max(last_awake, ends[rank]);
      }
      last = std::min(last, last_awake + setting_.timeout);
      if (processes_.next_event() > last) return last;
      processes_.advance(processes_.next_event());
    }
  }

  void close(const RangesOfRanks& done, const std::vector<Seconds>& seconds) {
    if (const std::string wrong = what_is_wrong(window(), done); !wrong.empty())
      throw Broken("step " + std::to_string(outcome_.steps + 1) + ": " + wrong);
    const auto rows = rows_of(outcome_.steps, done, shares_->shares(), seconds);
    const distributed::Agreed agreed =
        timed(outcome_, "what the rows come to", [&] { return distributed::agree(rows); });
    if (agreed.verdict != distributed::Agreed::Verdict::whole)
      throw Broken("no step is made of the rows of step " + std::to_string(outcome_.steps + 1));
    shares_->observe(agreed.totals.of_ranks);
    for (std::size_t rank = 0; rank < observed_.size(); ++rank)
      observed_[rank] = shares_->seconds_per_sample(rank);
    take_optimizer_step(static_cast<std::int64_t>(agreed.totals.weight));
  }

  /// Takes a step with `samples` in the sums; each weighs 1.
  void take_optimizer_step(std::int64_t samples) {
    ++outcome_.steps;
    outcome_.samples += samples;
    next_sample_ += setting_.micro_batches;
    optimizer_.step();
    if (processes_.now() < kept_at_ + setting_.checkpoint_every) return;
    kept_at_ = processes_.now();
    kept_steps_ = outcome_.steps;
    kept_sample_ = next_sample_;
  }

  /// Returns the part of `done` that the ranks of the renewed group keep, by their new ranks.
  RangesOfRanks change_ranks(const RangesOfRanks& done) {
    const std::vector<Member> before = group_.members();
    const std::vector<std::vector<double>> observed_before = std::move(observed_);
    group_.change();
    ++outcome_.changes;
    RangesOfRanks kept(group_.members().size());
    observed_.clear();
    for (const Member member : group_.members()) observed_.push_back(known_of(member));
    for (std::size_t at = 0; at < before.size(); ++at) {
      const auto rank = group_.rank_of(before[at]);
      if (rank) observed_[static_cast<std::size_t>(*rank)] = observed_before[at];
      if (at >= done.size()) continue;
      if (rank && setting_.keeps_windows)
        kept[static_cast<std::size_t>(*rank)] = done[at];
      else
        outcome_.done_again += std::ssize(done[at]);
    }
    begin_shares();
    if (has_all_state(before)) return kept;
    go_back();
    return RangesOfRanks(group_.members().size());
  }

  bool has_all_state(const std::vector<Member>& before) {
    if (setting_.state_tensors == 0) return true;
    const std::vector<train::RankHoldings> held = optimizer_.holdings(before, group_.members());
    const auto division = timed(outcome_, "who has what of the optimizer's state",
                                [&] { return train::plan_redistribution(held); });
    if (division && division->needs_replicas) ++outcome_.from_replicas;
    return division.has_value();
  }

  /// Goes back to the last checkpoint.
  void go_back() {
    ++outcome_.went_back;
    outcome_.samples -= next_sample_ - kept_sample_;
    outcome_.steps = kept_steps_;
    next_sample_ = kept_sample_;
  }

  /// A step's samples are spread evenly over the time since the one before.
  void spread_over_quarters(Seconds from) {
    const Seconds to = processes_.now();
    for (Seconds at = from; at < to;) {
      const auto quarter = static_cast<std::size_t>(at / kQuarter);
      const Seconds end = std::min(to, kQuarter * static_cast<double>(quarter + 1));
      in_quarters_.resize(std::max(in_quarters_.size(), quarter + 1));
      in_quarters_[quarter] +=
          static_cast<double>(setting_.micro_batches) * (end - at) / (to - from);
      at = end;
    }
  }

  Outcome finished() {
    outcome_.length = processes_.now();
    outcome_.lived = processes_.lived(0, outcome_.length);
    outcome_.deaths = processes_.deaths();
    for (std::size_t i = 0; i + 1 < in_quarters_.size(); ++i) {
      const Seconds from = kQuarter * static_cast<double>(i);
      outcome_.of_quarters.push_back(in_quarters_[i] / processes_.lived(from, from + kQuarter));
    }
    return outcome_;
  }

  const Setting& setting_;
  const Rules& rules_;
  Outcome outcome_;
  Processes processes_;
  std::mt19937_64 random_;
  SimulatedGroup group_;
  DividedOptimizer optimizer_;
  std::vector<Seconds> pace_;                  ///< by machine, for a micro-batch
  std::vector<std::vector<double>> observed_;  ///< by rank, for a sample (PaceEstimate::observed)
  std::optional<distributed::WindowShares> shares_;
  std::int64_t next_sample_ = 0, kept_sample_ = 0, kept_steps_ = 0;
  Seconds kept_at_ = 0;
  std::vector<double> in_quarters_;  ///< samples
};

}  // namespace

Outcome simulate(const Setting& setting, const Rules& rules) {
  return SimulatedRun(setting, rules).run();
}

}  // namespace accrue::simulation
