#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/accum/reduction.h"
#include "accrue/distributed/group.h"
#include "distributed/compress/compression.h"
#include "distributed/reduce/sharding.h"

namespace accrue::distributed {

struct ReduceOptions {
  /// Whether buckets are reduced during the backward of the last micro-batch, and not after it.
  bool overlap = true;
  /// The most bytes that are reduced as one bucket. Smaller buckets begin earlier, larger ones cost
  /// fewer messages; the last ones are smaller in any case.
  std::int64_t bucket_bytes = std::int64_t{4} << 20;
  /// With any but `none` each flat allocation is summed as one by a Compressor, whose sums are not
  /// exact. That happens after the rows agree, as it needs the window's total weight: so there are
  /// no buckets and no overlap.
  Compression compress = Compression::none;
  /// Set where each rank steps its slice of the parameters: sums then go to their owners alone,
  /// added in order of rank, and half as much is sent. Null: all ranks have all sums.
  std::shared_ptr<const Sharding> sharding = nullptr;
};

/// Whether ranks' sums of this kind can be added without rounding them further: fp32, fp64, fixed.
bool adds_up(accum::Accumulation accumulation);

using accum::WindowTotals;

/// One reduction of the gradient sums per window, whatever the number of micro-batches: local ones
/// only add, and buckets of the flat buffer are summed over the ranks once (Li et al., "PyTorch
/// Distributed", arXiv:2006.15704, without its division by the number of ranks).
///
/// Buckets begin in the order in which rank 0 saw them become final in its first window, which it
/// tells the others. With overlap each begins as soon as it and those before it are final, in the
/// backward of the micro-batch that begin_micro_batch(true) announced; the rest begin when the
/// window closes. So parameters that are not used on some ranks, and ranks without micro-batches,
/// which contribute zeros, need no further agreement. The first window is reduced at its close.
///
/// Around the sums the ranks exchange one row of numbers each: window, weight, loss, what went
/// wrong, contributions and fixed-point units by slot. From these rows, the same everywhere, all
/// decide alike: a rank whose sums changed after their reduction began (memory, a gradient that is
/// not finite), or fixed-point units that differ, send all ranks back to make their sums anew; they
/// are then reduced after the rows agree. No rank steps on its own judgement, and none gets the
/// sums of another window: where windows differ, reduce() throws a runtime Error on all ranks.
///
/// A window whose sums are not finite comes back once more, with sums that were made anew and
/// looked at. If those of a rank still are not, reduce() throws a runtime Error there that names
/// the parameter: no sample is the cause.
///
/// It is for buffers whose sums add up; in Accumulation::fixed they have the same bits for any
/// number of ranks.
class DeferredReduce final : public accum::Reduction {
 public:
  /// All ranks construct it with parameters of the same shapes and the same options. Throws a usage
  /// Error if the buffer's sums cannot be added over ranks without rounding them further, or are
  /// not fp32 and to be compressed.
  DeferredReduce(std::shared_ptr<Group> group, std::shared_ptr<accum::GradientBuffer> buffer,
                 ReduceOptions options = {});
  ~DeferredReduce() override;

  /// To be called before each micro-batch. `is_last` says that it is the window's last, whose
  /// backward may be overlapped: not if a rank is known to be gone, so that this one's sums
  /// stay its own for when the group is made anew.
  void begin_micro_batch(bool is_last);
  /// Seconds of the backward passes that the reduction has taken since it was made.
  double seconds_in_backward() const;
  /// Replaces `values` by their sum over the ranks at once, added in order of rank, for what ranks
  /// need of each other while they fill a window. All call it, before buckets begin.
  void add_up(const at::Tensor& values);
  /// Sets numbers that the ranks add up at the window's close: always as many on each rank.
  void set_rank_sums(std::vector<double> rank_sums);
  /// Sets numbers that this rank tells the others at the window's close, always as many on each
  /// rank; totals().of_ranks has those of all.
  void set_figures(std::vector<double> figures);
  /// Says how many samples of its share this rank has not done when it next closes the window.
  /// If any rank has some, the sums are added up as ever and no rank is to step yet
  /// (Outcome::Verdict::unfinished): so a rank may stop anywhere between two micro-batches, however
  /// far the others are. Not with compression or sharding, whose sums are for a step alone.
  void set_left(std::int64_t samples);
  /// Of windows with several losses: asked for this rank's sums by loss at each attempt to close,
  /// as many on each rank.
  using TellLossSums = std::function<std::vector<double>()>;
  /// Told those of all ranks. Returns whether losses are now scaled by other factors, so that each
  /// rank makes its sums anew.
  using OnLossSums = std::function<bool(const std::vector<double>& sums)>;
  void set_loss_sums(TellLossSums mine, OnLossSums told);
  /// The totals of the last window that was reduced.
  const WindowTotals& totals() const;

  /// What compression keeps of all ranks together (Compressor::state); nothing without it. All
  /// ranks call it, between windows. What it sends is in no window's wire_bytes.
  NamedParameters state();
  /// All ranks call it. Throws a usage Error as Compressor::load_state does.
  void load_state(const StoredTensors& state);

  Outcome reduce(accum::GradientBuffer& buffer, const Share& share) override;
  const accum::SumShard* shard() const override;
  /// Whether the buffer's sums are still this rank's own: nothing of the window under way was begun
  /// to be reduced, or a reduce() that failed did so before.
  bool left_sums_alone() const;
  void withdraw() noexcept override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::distributed
