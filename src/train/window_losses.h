#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "accrue/accum/loss_totals.h"
#include "accrue/batch/schedule.h"
#include "accrue/core/ledger.h"
#include "accrue/train/forward_backward.h"

namespace accrue::train {

/// How a model's losses add up over a window.
///
/// Several losses that all have LossHead::weight get their means over the whole window, each by its
/// own denominator: the labels are read once before the first backward. Else there is nothing to
/// know, and `pass_options` are the defaults.
class WindowLosses {
 public:
  explicit WindowLosses(models::Trainable& model) : model_(model) {}

  /// For each window anew.
  void count(std::span<const batch::Range> parts,
             const std::function<batch::MicroBatch(batch::Range)>& fetch);
  PassOptions pass_options() const;
  /// Takes micro-batch `index` out. Whether the factors of the others changed.
  bool leave_out(std::int64_t index);
  /// Throws a usage Error where a loss had another weight than LossHead::weight told.
  void check(const MicroRef& ref, const std::vector<double>& seen) const;

 private:
  bool add_up();

  models::Trainable& model_;
  std::vector<std::vector<double>> weights_;  ///< by micro-batch; empty where it was left out
  std::optional<LossTotals> totals_;
};

}  // namespace accrue::train
