#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "accrue/distributed/group.h"
#include "accrue/optim/optimizer.h"

namespace accrue::train {

/// The tensor of an optimizer's state that every rank has: the number of steps taken.
inline constexpr const char* kStepName = "step";
std::int64_t steps_taken(const optim::Optimizer& optimizer);

/// A copy of the slice that the rank before this one keeps of a divided optimizer's state (the last
/// rank precedes the first), from which to continue if that rank is lost. It is empty before the
/// first update, while an update is under way, and after one that failed.
///
/// An update sends as many bytes as a rank's slice of the state has.
class SliceReplica {
 public:
  /// Collective: all ranks construct it, with optimizers of their slices, among two ranks or more.
  /// `own` is kept by reference.
  SliceReplica(std::shared_ptr<distributed::Group> group, const optim::Optimizer& own);

  /// Begins to send this rank's slice to the next rank, and to receive that of the one before. The
  /// optimizer may not step until finish_update().
  void begin_update();
  /// Returns when both are complete. Throws as collectives do.
  void finish_update();

  /// The step of the copy; none if there is no copy.
  std::optional<std::int64_t> step() const { return step_; }
  /// In order of the optimizer's own ranges.
  const std::vector<optim::StateRange>& ranges() const { return ranges_; }
  std::int64_t bytes() const;

 private:
  std::shared_ptr<distributed::Group> group_;
  const optim::Optimizer& own_;
  std::vector<optim::StateRange> ranges_;
  std::optional<std::int64_t> step_;
  std::vector<std::unique_ptr<distributed::Work>> under_way_;
};

}  // namespace accrue::train
