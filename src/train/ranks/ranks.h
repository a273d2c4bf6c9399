#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/distributed/group.h"
#include "accrue/optim/optimizer.h"
#include "batch/schedule.h"
#include "distributed/group/handshake.h"
#include "distributed/reduce/deferred_reduce.h"
#include "distributed/reduce/parameter_shards.h"
#include "distributed/schedule/outer_rounds.h"
#include "train/checkpoint/rank_record.h"
#include "train/plan/setup.h"
#include "train/ranks/sharded_optimizer.h"
#include "train/window/pipeline/pipeline_stage.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// The processes that share a run; one process without a group is alone, and then nothing here
/// waits or sends. The first rank writes the run directory and reports to observers; all compute
/// the same steps, unless they step alone between outer steps.
class Ranks {
 public:
  explicit Ranks(std::shared_ptr<distributed::Group> group) : group_(std::move(group)) {}

  bool are_many() const { return group_ != nullptr; }
  bool is_first() const { return rank() == 0; }
  std::int64_t rank() const { return group_ ? group_->rank() : 0; }
  std::int64_t world() const { return group_ ? group_->world() : 1; }
  /// The slice of the optimizer's state that this rank keeps.
  RankSlice slice(const Config& config) const;
  /// Whether each rank keeps a part of the parameters and sums as well. One that is left alone has
  /// all of them.
  bool divide_model(const Config& config) const {
    return world() > 1 && config.dist.shard == Shard::all;
  }
  std::int64_t wire_bytes() const { return group_ ? group_->wire_bytes() : 0; }

  /// Throws if something cannot be divided in this version, or if another rank differs: in its
  /// config, its data, its model, or `start`, the facts with which this rank begins the run.
  void begin(const Workload& work, const std::string& data_fingerprint,
             const distributed::Facts& start) const;
  /// Throws if ranks do not continue from the same step, parameters and state of the optimizer.
  void check_state(const Workload& work, const optim::Optimizer& optimizer,
                   std::int64_t step) const;
  /// The decision for each rank, by rank: its own or, if they have to be `alike`, the most frugal
  /// one for all.
  std::vector<MicroDecision> agree(MicroDecision mine, bool alike) const;

  /// This rank's share of `samples` if they are shared equally: one range, may be empty.
  batch::Range equal_share(batch::Range samples) const;

  /// Throws if the checkpoint has the inner optimizers of another number of ranks.
  void check_resumable(const std::optional<std::int64_t>& inner_optimizers) const;

  /// Makes the rounds of a run whose ranks step alone, also of one process. `rank_sums` is how many
  /// numbers the ranks add up in a round, of which the last are `requests`; `say_waiting` is called
  /// when one waits for the others.
  std::unique_ptr<distributed::OuterRounds> make_rounds(
      const Config& config, const NamedParameters& parameters, std::size_t rank_sums,
      std::size_t requests, std::function<void(const std::string&)> say_waiting) const;
  /// Makes the reduction for ranks that add up their sums; those of `in_passes` are reduced in a
  /// window's passes (ReduceOptions::in_passes).
  std::unique_ptr<distributed::DeferredReduce> make_reduce(
      const Config& config, std::shared_ptr<accum::GradientBuffer> buffer,
      std::vector<bool> in_passes = {}) const;
  /// Divides the model's parameters and sums among the ranks: from here on this rank has its part.
  /// Null if each has all of them.
  std::unique_ptr<distributed::ParameterShards> make_shards(
      const Config& config, models::Trainable& model,
      std::shared_ptr<accum::GradientBuffer> buffer) const;
  /// Makes this rank's stage of the model if ranks are the stages of a pipeline, balanced by
  /// `micro`.
  PipelineStage make_stage(models::Trainable& model, const batch::MicroBatch& micro) const;
  /// Makes one optimizer of all parameters from the ranks' optimizers of a slice; null if each
  /// rank's has everything. `own` is kept by reference.
  std::unique_ptr<ShardedOptimizer> make_sharded(const Workload& work, optim::Optimizer& own) const;
  /// Returns the first rank's value, on all ranks.
  bool broadcast_first(bool mine) const;
  std::string broadcast_first(std::string_view topic, const std::string& mine) const {
    return group_ ? group_->gather_texts(topic, mine).front() : mine;
  }
  /// Returns whether `mine` is true on all ranks, on all ranks.
  bool all_true(bool mine) const;
  /// The states of the other ranks on the first, by rank from the second on; empty on the others.
  /// All have the same names, shapes and dtypes. Throws a runtime Error as collectives do.
  std::vector<NamedParameters> states_of_others(const NamedParameters& mine) const;
  /// Adds up element by element over all ranks. `what` names the purpose in errors.
  std::vector<double> add_up(const std::vector<double>& mine, std::string_view what) const;
  /// distributed::Group::gather_texts(); not for a rank that is alone.
  std::vector<std::string> gather_texts(std::string_view topic, const std::string& mine) const {
    return group_->gather_texts(topic, mine);
  }

  /// The same as gather_texts(), for texts of any length, by a collective.
  std::vector<std::string> gather_long_texts(const std::string& mine) const;
  /// distributed::Group::announce() and announced(); not for a rank that is alone.
  void announce(std::int64_t number) const { group_->announce(number); }
  std::int64_t announced() const { return group_->announced(); }

  /// The values of all ranks, by rank; all give the same number of them.
  std::vector<std::int64_t> gather_numbers(std::int64_t mine) const;
  std::vector<std::vector<std::int64_t>> gather_numbers(
      const std::vector<std::int64_t>& mine) const;
  /// distributed::Group::start_send() and start_receive(), whose result is waited for; not for a
  /// rank that is alone.
  std::unique_ptr<distributed::Work> start_send(const at::Tensor& values, std::int64_t to,
                                                std::string_view what) const {
    return group_->start_send(values, to, what);
  }
  void send(const at::Tensor& values, std::int64_t to, std::string_view what) const {
    start_send(values, to, what)->wait();
  }
  void receive(const at::Tensor& values, std::int64_t from, std::string_view what) const;
  /// Replaces `values` by those of rank `from`.
  void broadcast(const at::Tensor& values, std::int64_t from, std::string_view what) const;

  /// Whether a run of this workload continues when some of its ranks are gone.
  bool may_go_on(const Workload& work) const;
  /// Whether this process came to a run under way, which it joins by renew().
  bool are_joined_late() const { return group_ && group_->comes_late(); }
  bool have_applicants() const { return group_ && group_->has_applicants(); }
  /// distributed::Group::settle().
  void settle() const {
    if (group_) group_->settle();
  }
  /// distributed::Group::renew(); not for a rank that is alone.
  distributed::FormerRanks renew(const distributed::Group::KeepWaiting& keep_waiting) const {
    return group_->renew(keep_waiting);
  }

  /// distributed::Group::generation().
  std::int64_t generation() const { return group_ ? group_->generation() : 0; }

  /// Returns when all ranks have called it, or if a rank that is gone has nothing left to do.
  void finish() const;
  void fail(const std::string& reason) const noexcept;

 private:
  void check_divisible(const Workload& work) const;

  std::shared_ptr<distributed::Group> group_;
};

/// The decision that fits the memory of all ranks: the smallest micro-batch, and among equal ones
/// the most recomputation.
const MicroDecision& most_frugal(const std::vector<MicroDecision>& decisions);

/// The record of a rank without a known speed that runs the same as the most frugal of `ranks`, at
/// least one.
RankRecord most_frugal_record(const std::vector<RankRecord>& ranks);

/// The records with which `world` ranks continue. If there are as many ranks as `kept` records (at
/// least one), they keep their own. Another number of ranks has no known speeds, and the
/// micro-batch and recomputation that fitted on all kept ones; so has the same number if all must
/// be `alike` and were not.
std::vector<RankRecord> records_for(std::int64_t world, const std::vector<RankRecord>& kept,
                                    bool alike = false);

/// The part of `samples` for `rank` of `world` (Ranks::equal_share).
batch::Range equal_share_of(batch::Range samples, std::int64_t rank, std::int64_t world);

}  // namespace accrue::train
