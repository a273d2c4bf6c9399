#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
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
  /// With any but `none` a Compressor sums each flat allocation at once, and its sums are not
  /// exact. That happens after the rows agree, as it needs the window's total weight: so there are
  /// no buckets and no overlap.
  Compression compress = Compression::none;
  /// Set if each rank steps its slice of the parameters: sums are then sent only to their owners,
  /// added in order of rank, which halves the bytes. Null: all ranks have all sums.
  std::shared_ptr<const Sharding> sharding = nullptr;
  /// By slot of the buffer, whether its sum is reduced by reduce_now() and not when the window
  /// closes; needs `sharding`. Empty: none is. If one is, nothing overlaps.
  std::vector<bool> in_passes = {};
};

/// Whether ranks' sums of this kind can be added without rounding them further: fp32, fp64, fixed.
bool adds_up(accum::Accumulation accumulation);

using accum::WindowTotals;

/// One reduction of the gradient sums per window, whatever the number of micro-batches: these only
/// add locally, and buckets of the flat buffer are summed over the ranks once (Li et al., "PyTorch
/// Distributed", arXiv:2006.15704, without its division by the number of ranks).
///
/// Buckets begin in the order in which rank 0 saw them become final in its first window, which it
/// sends to the others. With overlap each begins as soon as it and those before it are final, in
/// the backward of the micro-batch that begin_micro_batch(true) announced; the rest begin when the
/// window closes. So parameters that are not used on some ranks, and ranks without micro-batches,
/// which contribute zeros, need no further agreement. The first window is reduced at its close.
///
/// With the sums the ranks exchange one row of numbers each: window, weight, loss, errors,
/// contributions and fixed-point units by slot. From these rows, the same everywhere, all decide
/// alike: a rank whose sums changed after their reduction began (memory, a gradient that is not
/// finite), or fixed-point units that differ, make all ranks compute their sums again; they are
/// then reduced after the rows agree. No rank steps on its own judgement, and none gets the sums of
/// another window: if windows differ, reduce() throws a runtime Error on all ranks.
///
/// A window whose sums are not finite comes back once more, with sums that were computed again and
/// audited. If those of a rank still are not finite, reduce() throws a runtime Error there that
/// names the parameter: no sample is the cause.
///
/// For buffers whose sums add up; in Accumulation::fixed they have the same bits for any number of
/// ranks.
class DeferredReduce final : public accum::Reduction {
 public:
  /// Collective: all ranks construct it with parameters of the same shapes and the same options.
  /// Throws a usage Error if the buffer's sums cannot be added over ranks without rounding them
  /// further, or are to be compressed and not fp32.
  DeferredReduce(std::shared_ptr<Group> group, std::shared_ptr<accum::GradientBuffer> buffer,
                 ReduceOptions options = {});
  ~DeferredReduce() override;

  /// Call it before each micro-batch. `is_last` marks the window's last, whose backward may be
  /// overlapped: but not if a rank is known to be gone, so that this rank's sums stay its own until
  /// the group is rebuilt.
  void begin_micro_batch(bool is_last);
  /// Seconds of backward passes that the reduction has used since it was made.
  double seconds_in_backward() const;
  /// Replaces `values` by their sum over the ranks at once, added in order of rank, for what ranks
  /// exchange while they fill a window. Collective, before buckets begin.
  void add_up(const at::Tensor& values);
  /// Sends the sums of these slots to their owners, at once: for slots of ReduceOptions::in_passes
  /// whose sums are final, in each attempt to run the window. Collective. The elements that this
  /// rank does not own keep its own sums, which are no longer needed.
  void reduce_now(std::span<const std::size_t> slots);
  /// Sets numbers that the ranks add up at the window's close: always the same count on each rank.
  void set_rank_sums(std::vector<double> rank_sums);
  /// Sets numbers that this rank sends the others at the window's close, always the same count on
  /// each rank; totals().of_ranks has those of all.
  void set_figures(std::vector<double> figures);
  /// Sets how many samples of its share this rank has not done when it next closes the window. If
  /// any rank has some left, the sums are added up as usual and no rank steps yet
  /// (Outcome::Verdict::unfinished): so a rank may stop anywhere between two micro-batches, however
  /// far the others are. Not with compression or sharding, whose sums are only for a step.
  void set_left(std::int64_t samples);
  /// For windows with several losses: called for this rank's sums by loss at each attempt to close,
  /// the same count on each rank.
  using TellLossSums = std::function<std::vector<double>()>;
  /// Receives the sums of all ranks. Returns whether losses are now scaled by other factors, so
  /// that each rank has to compute its sums again.
  using OnLossSums = std::function<bool(const std::vector<double>& sums)>;
  void set_loss_sums(TellLossSums mine, OnLossSums told);
  /// The totals of the last window that was reduced.
  const WindowTotals& totals() const;

  /// The errors that compression keeps on all ranks together (Compressor::state); empty without it.
  /// Collective, between windows. The bytes it sends are in no window's wire_bytes.
  NamedParameters state();
  /// Collective. Throws a usage Error as Compressor::load_state does.
  void load_state(const StoredTensors& state);

  Outcome reduce(accum::GradientBuffer& buffer, const Share& share) override;
  const accum::SumShard* shard() const override;
  bool takes_sums_in_passes() const override;
  /// Whether the buffer's sums are still this rank's own: the reduction of the current window was
  /// not begun, or a reduce() failed before it began.
  bool has_local_sums() const;
  void withdraw() noexcept override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::distributed
