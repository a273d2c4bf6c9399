#pragma once

#include <memory>
#include <vector>

#include "train/ranks/parallelism.h"

namespace accrue::train {

/// Ranks whose gradient sums are added up at the close of each window, so that all take the same
/// step. The optimizer's state may be divided among them.
class SummedWindows : public Parallelism {
 public:
  explicit SummedWindows(const ParallelismContext& context);

  distributed::DeferredReduce* reduction() override { return reduce_.get(); }
  void close(accum::Window& window, WindowRun& run) override;
  void window_done(std::int64_t index, const WindowRun& run) override;
  void report(const WindowRun& run, StepReport& report) const override;
  bool others_ask_to_join() const override { return others_ask_to_join_; }
  bool writes_together() const override;
  bool can_write_alone() const override { return sharded_ == nullptr; }
  StoredTensors gather_optimizer() const override;
  StoredTensors gather_model(const NamedParameters& file_tensors) const override;
  std::string remark(std::int64_t micro_batches) const override;
  NamedParameters state(TrainState& state) override;
  void load_state(const StoredTensors& of_ranks, const TrainState& state) override;

 protected:
  /// Call it when a window begins: what is sent from then on counts for the window.
  void begin_window() { sent_before_ = ranks_.wire_bytes(); }
  RunLog& log() { return log_; }
  const distributed::WindowTotals& totals() const { return reduce_->totals(); }
  const Ranks& ranks() const { return ranks_; }
  /// Whether the other ranks continue if one is left out.
  bool may_change() const { return may_change_; }

 private:
  /// The figures of a window that this rank sends the others, from its `run`; as many on each rank.
  virtual std::vector<double> figures(const WindowRun& run) const = 0;
  void report_events(std::int64_t window, const WindowRun& run);

  const Ranks& ranks_;
  const ShardedOptimizer* sharded_;
  distributed::ParameterShards* shards_;
  RunLog& log_;
  const RunControl& control_;
  const NoticeWatch* notice_;
  bool may_change_;
  bool others_ask_to_join_ = false;
  bool compresses_;
  std::unique_ptr<distributed::DeferredReduce> reduce_;
  std::int64_t sent_before_ = 0;
};

}  // namespace accrue::train
