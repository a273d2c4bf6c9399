#include <c10/util/Exception.h>

#include <utility>

#include "accrue/accum/accumulator.h"
#include "accum/window_remarks.h"

namespace accrue {

void Accumulator::emit(const char* name, const std::string& reason) const {
  if (options_.on_event) options_.on_event({name, reason, counters_.steps});
}

/// Reports a warning by TORCH_WARN if there is no on_event.
void Accumulator::warn(const char* name, const std::string& reason) const {
  if (options_.on_event) return emit(name, reason);
  TORCH_WARN(reason);
}

/// Does nothing in the first micro-batch of a process that is alone: a batch in one micro-batch has
/// the statistics of the batch.
void Accumulator::look_for_batch_norms() {
  if (!find_batch_norms_ || micro_statistics_) return;
  if (!ranks_ && window_.ledger().count(MicroStatus::committed) < 2) return;
  const std::vector<std::string> found = find_batch_norms_();
  if (found.empty()) return;
  micro_statistics_ = true;
  if (std::exchange(told_of_batch_norms_, true)) return;
  const std::string others =
      found.size() > 1 ? " and " + std::to_string(found.size() - 1) + " more" : "";
  const std::string reason =
      "batch normalisation in '" + found.front() + "'" + others +
      " takes the statistics of each micro-batch, not of the batch, so the gradient is not that of "
      "the whole batch; use group normalisation, eval() of these layers, or a batch in one "
      "micro-batch";
  warn("batchnorm", reason);
}

void Accumulator::look_at_first_window() {
  if (std::exchange(looked_at_window_, true)) return;
  for (const accum::WindowRemark& remark : accum::remarks_on(window_))
    warn(remark.name, remark.reason);
}

}  // namespace accrue
