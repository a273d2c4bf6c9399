#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrue/accum/shared_sums.h"
#include "accrue/core/clock.h"
#include "accrue/distributed/group.h"
#include "distributed/reduce/deferred_reduce.h"
#include "distributed/schedule/window_shares.h"

namespace accrue::distributed {

/// The sums of an accumulator's windows over a group: one DeferredReduce, with shares by speed.
class GroupSums final : public accum::SharedSums {
 public:
  /// See accum::RankGroup::share_sums.
  GroupSums(std::shared_ptr<Group> group, std::shared_ptr<accum::GradientBuffer> buffer,
            const accum::SharingOptions& options);
  ~GroupSums() override;
  GroupSums(const GroupSums&) = delete;
  GroupSums& operator=(const GroupSums&) = delete;

  RankSlice place() const override { return {group_->rank(), group_->world()}; }
  accum::WindowShare share(std::int64_t size) override;
  void begin_micro_batch(bool is_last) override;
  void set_figures(TellFigures mine, OnFigures told) override {
    tell_figures_ = std::move(mine);
    on_figures_ = std::move(told);
  }
  void set_loss_sums(TellFigures mine, OnLossSums told) override {
    reduce_.set_loss_sums(std::move(mine), std::move(told));
  }
  const accum::WindowTotals& totals() const override { return reduce_.totals(); }
  std::vector<double> add_up(std::vector<double> numbers, std::string_view what) override;
  void fail(const std::string& reason) noexcept override { group_->fail(reason); }

  Outcome reduce(accum::GradientBuffer& buffer, const Share& share) override;
  void withdraw() noexcept override { reduce_.withdraw(); }

 private:
  /// When this rank's work on its share of the open window began.
  struct Timed {
    Stopwatch watch = {};
    double reducing_before = 0;
    double seconds = 0;  ///< without the time of reductions; known from the first reduce() on
    bool is_done = false;
  };

  void end_work();
  std::vector<double> figures(const Figures& mine) const;
  std::vector<Figures> told_by_rank() const;
  void observe();

  std::shared_ptr<Group> group_;
  DeferredReduce reduce_;
  WindowShares shares_;
  std::optional<Timed> timed_;  ///< since share()
  TellFigures tell_figures_;
  OnFigures on_figures_;
};

}  // namespace accrue::distributed
