#include "train/window/rollback_history.h"

#include "accrue/core/error.h"

namespace accrue::train {

void RollbackHistory::left_out(std::int64_t window, const MicroRef& micro) {
  if (!micro.sample_ids.empty()) left_out_ = {window, micro.sample_ids.front()};
}

bool RollbackHistory::known_bad(std::int64_t window, const MicroRef& micro) const {
  return !micro.sample_ids.empty() && known_bad_.contains({window, micro.sample_ids.front()});
}

void RollbackHistory::torn_by_gradient(std::int64_t window, const std::string& reason) {
  const bool again = !torn_.insert(window).second;
  const bool learnt =
      left_out_ && left_out_->first == window && known_bad_.insert(*left_out_).second;
  if (again && !learnt)
    throw runtime_error("window " + std::to_string(window),
                        "gradients that are finite before they are folded into the optimizer",
                        "twice: " + reason,
                        "a lower optim.lr, or memory.gradients = \"buffer\" with an optimizer that "
                        "has one");
}

void RollbackHistory::torn_by_memory(std::int64_t window, std::int64_t samples,
                                     const std::exception& error) {
  if (short_of_memory_ != window) retries_.start();
  short_of_memory_ = window;
  retries_.window_failed(window, samples, error);
}

void RollbackHistory::closed(std::int64_t window) {
  if (short_of_memory_ != window) return;
  short_of_memory_.reset();
  retries_.tell();
}

}  // namespace accrue::train
