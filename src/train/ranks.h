#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/batch/schedule.h"
#include "accrue/dist/deferred_reduce.h"
#include "accrue/dist/group.h"
#include "accrue/dist/handshake.h"
#include "accrue/optim/optimizer.h"
#include "accrue/train/setup.h"
#include "accrue/train/workload.h"

namespace accrue::train {

/// The processes that a run is divided among. Alone, where there is no group, all of this is empty.
/// The first rank writes the run directory and tells observers; all compute the same steps.
class Ranks {
 public:
  explicit Ranks(std::shared_ptr<dist::Group> group) : group_(std::move(group)) {}

  bool are_many() const { return group_ != nullptr; }
  bool is_first() const { return !group_ || group_->rank() == 0; }
  std::int64_t world() const { return group_ ? group_->world() : 1; }

  /// Refuses what cannot be divided in this version, and what another rank states differently:
  /// its config, its data, its model, or `start`, which is what this rank begins the run with.
  void begin(const Workload& work, const std::string& data_fingerprint,
             const dist::Facts& start) const;
  /// Refuses ranks that do not go on from the same step, parameters and state of the optimizer.
  void check_state(const Workload& work, const optim::Optimizer& optimizer,
                   std::int64_t step) const;
  /// One for all: the smallest micro-batch that any rank decided on, and the most recomputation of
  /// those who did.
  MicroDecision agree(MicroDecision mine) const;

  /// This rank's part of a window: whole micro-batches of `micro` samples, in one piece, as many as
  /// batch::micro_batches_per_rank says. May be empty.
  batch::Range share(batch::Range window, std::int64_t micro) const;

  /// Null where alone.
  std::unique_ptr<dist::DeferredReduce> make_reduce(
      const Config& config, std::shared_ptr<accum::GradientBuffer> buffer) const;
  /// Element by element, over all ranks.
  std::vector<double> add_up(const std::vector<double>& mine) const;

  void finish() const;  ///< returns when all ranks did
  void fail(const std::string& reason) const noexcept;

 private:
  void check_divisible(const Workload& work) const;

  std::shared_ptr<dist::Group> group_;
};

/// The decision that fits the memory of all who decided: the smallest micro-batch, and of equal
/// ones the most recomputation.
const MicroDecision& most_frugal(const std::vector<MicroDecision>& decisions);

/// The part of `window` that `rank` of `world` takes (Ranks::share).
batch::Range share_of(batch::Range window, std::int64_t micro, std::int64_t rank,
                      std::int64_t world);

}  // namespace accrue::train
