#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accrue/accum/loss_totals.h"
#include "accrue/core/ledger.h"
#include "batch/schedule.h"
#include "train/pass/forward_backward.h"

namespace accrue::train {

/// How a model's losses add up over a window.
///
/// Several losses that all have LossHead::weight get their means over the whole window, each by its
/// own denominator: the labels are read once before the first backward. Other losses need no
/// counts, and their `pass_options` are the defaults. A caller that needs the window's total weight
/// beforehand sets `needs_total_weight`.
class WindowLosses {
 public:
  using Fetch = std::function<batch::MicroBatch(batch::Range)>;

  /// With `needs_total_weight`, count() throws a usage Error if a loss has no LossHead::weight.
  explicit WindowLosses(models::Trainable& model, bool needs_total_weight = false)
      : model_(model), needs_total_weight_(needs_total_weight) {}

  /// Counts the weights of a window, before its first backward.
  void count(std::span<const batch::Range> micro_batches, const Fetch& fetch);
  /// Replaces the micro-batches from `position` on by `micro_batches`, into which they were split;
  /// the totals stay.
  void split_from(std::size_t position, std::span<const batch::Range> micro_batches,
                  const Fetch& fetch);
  PassOptions pass_options() const;
  /// For a window that ranks share: this rank's sums by loss, for all ranks to add up. They are the
  /// weights of its micro-batches that are not quarantined, and the noted results of its losses.
  /// Empty if weights are not counted.
  std::vector<double> sums() const;
  /// Replaces its own sums by those of all ranks, until count(): after that nothing but this call
  /// changes the factors. Returns whether it replaced them.
  bool take_sums(const std::vector<double>& of_all);
  /// The sum of the micro-batches' weights; none if they were not counted.
  std::optional<double> total_weight() const;
  /// Removes micro-batch `index`. Returns whether the others' factors changed.
  bool quarantine(std::int64_t index);
  /// Records the results of micro-batch `index`, once it is committed.
  void note(std::int64_t index, const HeadSums& heads);
  /// The recorded results, by micro-batch.
  const std::map<std::int64_t, HeadSums>& by_micro_batch() const { return noted_; }
  /// Each loss's own mean over the micro-batches of this window that were noted and not quarantined
  /// since (means_of).
  std::map<std::string, double> means() const;
  /// Throws a usage Error if a loss had another weight than LossHead::weight gave.
  void check(const MicroRef& ref, const std::vector<double>& seen) const;

 private:
  bool is_counted(const std::vector<models::LossHead>& heads) const;
  void take_weights(std::span<const batch::Range> micro_batches, const Fetch& fetch);
  bool add_up();
  bool take_totals(std::vector<double> totals);
  HeadSums noted() const;

  models::Trainable& model_;
  bool needs_total_weight_;
  std::vector<std::vector<double>> weights_;  ///< by micro-batch; empty if it was quarantined
  std::optional<LossTotals> totals_;
  std::map<std::int64_t, HeadSums> noted_;  ///< by micro-batch
  std::optional<HeadSums> noted_by_all_;    ///< of all ranks, if they share the window
};

}  // namespace accrue::train
