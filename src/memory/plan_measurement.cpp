#include <algorithm>
#include <cmath>
#include <optional>

#include "memory/plan.h"
#include "memory/plan_entries.h"

namespace accrue::memory {
namespace {

/// The number of rounds after which the error of times may be small enough, and after which they
/// are used in any case.
constexpr std::size_t fewest_rounds = 3, most_rounds = 9;
/// The error of times that were measured once, which is unknown.
constexpr double unknown_error = 0.05;
/// A sufficiently small error: half of what a plan treats as equal.
constexpr double small_error = kPlanTolerance / 2;

/// Whether a larger limit would change the plan.
bool is_short_of_memory(const std::vector<Fact>& facts, const PlanQuestion& question) {
  const std::vector<PlanEntry> entries = entries_of(fit_models(facts, question), question);
  if (entries.empty()) return true;
  const PlanEntry best = best_of(entries, unknown_error);
  return !best.within_limit || !leaves_margin(question, best.peak_bytes);
}

/// The trials of one mode.
class ModeTrials {
 public:
  ModeTrials(const Trial& trial, const PlanQuestion& question, Recompute mode)
      : trial_(trial), question_(question), mode_(mode) {}

  std::vector<Fact> run(double longest_seconds) {
    const std::vector<std::int64_t> sizes = sizes_of(question_);
    const std::int64_t least = sizes.front(), most = sizes.back();
    const std::int64_t second = std::min(2 * least, most);
    if (question_.micro_batch) {
      attempt(most);
    } else if (attempt(least) && second > least && attempt(second)) {
      for (std::int64_t size = check_point(second, most, longest_seconds);
           size > second && !attempt(size); size /= 2)
        ;
    }
    return facts_;
  }

 private:
  bool attempt(std::int64_t size) {
    const PlanPoint point{size, mode_};
    facts_.push_back({point, trial_(point)});
    return facts_.back().measured.fits;
  }

  std::int64_t check_point(std::int64_t size, std::int64_t most, double longest_seconds) const {
    const CostModel model(mode_, facts_, question_.resident);
    while (size <= most / 2 && is_within(question_, model, 2 * size) &&
           model.seconds(2 * size) <= longest_seconds)
      size *= 2;
    return size;
  }

  const Trial& trial_;
  const PlanQuestion& question_;
  Recompute mode_;
  std::vector<Fact> facts_;
};

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Half the width of the interval between two order statistics that holds the median with
/// probability 3/4, for any distribution (for 3 values the outer ones, for 9 third and seventh).
double error_of_median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t cut = (values.size() - 1) / 4;
  return (values[values.size() - 1 - cut] - values[cut]) / 2;
}

/// Times of all points that fit, measured in turn. Other programs on the machine slow a whole
/// round, or a few of its trials: so each point is compared with another one of the same round, and
/// the median over rounds is used.
class RoundsInTurn {
 public:
  explicit RoundsInTurn(std::vector<Fact>& facts) : facts_(facts) {
    for (std::size_t i = 0; i < facts.size(); ++i)
      if (facts[i].measured.fits) points_.push_back(i);
    const auto longest = std::ranges::max_element(
        points_, {}, [&](std::size_t i) { return facts[i].measured.seconds; });
    reference_ = static_cast<std::size_t>(longest - points_.begin());
    note();
  }

  /// One point is always enough, since there is nothing to compare it with.
  bool is_enough(double most_seconds) const {
    if (points_.size() < 2 || rounds_.size() >= most_rounds) return true;
    const double round = total_seconds_ / static_cast<double>(rounds_.size());
    if (total_seconds_ + round > most_seconds) return true;
    return rounds_.size() >= fewest_rounds && error() <= small_error;
  }

  void run(const Trial& trial) {
    for (const std::size_t i : points_) {
      Measured& measured = facts_[i].measured;
      if (!measured.fits) continue;
      const std::int64_t peak_bytes = measured.peak_bytes;
      measured = trial(facts_[i].point);
      if (measured.fits) measured.peak_bytes = peak_bytes;
    }
    note();
  }

  /// Writes the result of all rounds into the facts.
  void conclude() {
    if (points_.size() < 2) return;
    const double relative_error = error();
    const double seconds = median_of(seconds_of_reference());
    for (std::size_t of = 0; of < points_.size(); ++of) {
      Measured& measured = facts_[points_[of]].measured;
      if (!measured.fits) continue;
      measured.seconds = seconds * std::exp(median_of(log_ratios(of)));
      measured.waited_seconds = measured.seconds * median_of(waited_shares(of));
      measured.error = relative_error;
    }
  }

 private:
  void note() {
    std::vector<double> seconds, waited;
    for (const std::size_t i : points_) {
      seconds.push_back(facts_[i].measured.seconds);
      waited.push_back(facts_[i].measured.waited_seconds);
      total_seconds_ += seconds.back();
    }
    rounds_.push_back(std::move(seconds));
    waits_.push_back(std::move(waited));
  }

  /// The part of a point's time that it waited, in each of the rounds in which it fitted.
  std::vector<double> waited_shares(std::size_t of) const {
    std::vector<double> shares;
    for (std::size_t round = 0; round < rounds_.size(); ++round)
      if (rounds_[round][of] > 0) shares.push_back(waits_[round][of] / rounds_[round][of]);
    return shares;
  }

  std::vector<double> seconds_of_reference() const {
    std::vector<double> seconds;
    for (const std::vector<double>& round : rounds_)
      if (round[reference_] > 0) seconds.push_back(round[reference_]);
    return seconds;
  }

  /// The ratio of a point to the reference, in each of the rounds in which both fitted (which
  /// include the first).
  std::vector<double> log_ratios(std::size_t of) const {
    std::vector<double> ratios;
    for (const std::vector<double>& round : rounds_)
      if (round[of] > 0 && round[reference_] > 0)
        ratios.push_back(std::log(round[of] / round[reference_]));
    return ratios;
  }

  /// The largest error of any point's ratio to the reference.
  double error() const {
    if (rounds_.size() < 2) return unknown_error;
    double largest = 0;
    for (std::size_t of = 0; of < points_.size(); ++of)
      largest = std::max(largest, error_of_median(log_ratios(of)));
    return largest;
  }

  std::vector<Fact>& facts_;
  std::vector<std::size_t> points_;          ///< the facts that fit
  std::size_t reference_ = 0;                ///< the one among points_ with the longest time
  std::vector<std::vector<double>> rounds_;  ///< seconds, by point
  std::vector<std::vector<double>> waits_;   ///< waited seconds, likewise
  double total_seconds_ = 0;
};

}  // namespace

std::vector<Fact> measure(const Trial& trial, const PlanQuestion& question,
                          const MeasureOptions& options) {
  std::vector<Fact> facts;
  for (const Recompute mode : question.modes) {
    if (!facts.empty() && !options.all_modes && !is_short_of_memory(facts, question)) break;
    const std::vector<Fact> more = ModeTrials(trial, question, mode).run(options.longest_seconds);
    facts.insert(facts.end(), more.begin(), more.end());
  }
  RoundsInTurn rounds(facts);
  while (!rounds.is_enough(options.most_seconds)) rounds.run(trial);
  rounds.conclude();
  return facts;
}

}  // namespace accrue::memory
