#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "accrue/distributed/group.h"
#include "accrue/optim/optimizer.h"

namespace accrue::train {

/// The tensor of an optimizer's state that every rank has: how many steps it has taken.
inline constexpr const char* kStepName = "step";
std::int64_t steps_taken(const optim::Optimizer& optimizer);

/// A copy of what the rank before this one keeps of a divided optimizer's state (before the first
/// comes the last), to go on with where that rank is lost. It has none before the first update, and
/// none while an update is under way or where one failed.
///
/// An update sends as many bytes as a rank's part of the state has.
class SliceReplica {
 public:
  /// All ranks construct it, with optimizers of their slices among two ranks or more. `own` is kept
  /// by reference.
  SliceReplica(std::shared_ptr<distributed::Group> group, const optim::Optimizer& own);

  /// Begins to send this rank's part to the next rank, and to take that of the one before. Until
  /// finish_update() the optimizer may not step.
  void begin_update();
  /// Returns when both are there. Throws as collectives do.
  void finish_update();

  /// The step that the copy is of; none if there is none.
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
