#include <cmath>
#include <utility>

#include "accrue/accum/window.h"
#include "accrue/core/error.h"
#include "accum/content_watch.h"

namespace accrue::accum {

void Window::set_reduction(Reduction* reduction) {
  if (reduction != nullptr && buffer_->folds())
    throw usage_error("reduce gradients over ranks", "a buffer that holds their sums",
                      "one that folds them into an optimizer",
                      "memory.gradients = \"buffer\" and an optimizer that goes with it");
  reduction_ = reduction;
}

/// Everything here follows from what all ranks have, so it is the same on each. The norm is
/// computed from sums that have the same bits everywhere.
std::optional<MeanGradient> Window::reduced_mean(bool check_finite) {
  using Verdict = Reduction::Outcome::Verdict;
  for (bool audited = false;;) {
    const Reduction::Outcome outcome = reduction_->reduce(*buffer_, {ledger(), lost_reason_});
    if (outcome.verdict == Verdict::again) {
      ++retries_;
      recount_ = recount_ || outcome.rescaled;
      undo(outcome.reason);
      continue;
    }
    if (outcome.verdict == Verdict::unfinished) {
      unfinished_ = true;
      close_slots();
      return std::nullopt;
    }
    if (outcome.verdict == Verdict::dropped && !lost_) lose(outcome.reason);
    if (lost_ || outcome.weight == 0) return std::nullopt;
    close_slots();
    MeanGradient gradient = mean_over(outcome.weight);
    if (!check_finite || std::isfinite(gradient.norm())) return gradient;
    if (audited) {
      lose("the gradient's norm is " + std::to_string(gradient.norm()));
      return std::nullopt;
    }
    audited = true;
    undo("the gradient of all ranks is not finite", Look::sums);
  }
}

void Window::take_over(std::vector<LedgerEntry> entries) {
  require_open("take_over");
  if (!unfinished_)
    throw usage_error("take_over", "a window that ranks closed before it was whole", where(),
                      "calling it where is_unfinished()");
  entries_ = std::move(entries);
  unfinished_ = false;
  if (contents_) contents_->see_all();
}

}  // namespace accrue::accum
