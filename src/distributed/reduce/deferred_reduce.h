#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/accum/reduction.h"
#include "accrue/distributed/group.h"
#include "distributed/compress/compression.h"
#include "distributed/reduce/sharding.h"

namespace accrue::distributed {

struct ReduceOptions {
  /// Buckets are reduced during the backward of the last micro-batch; else after it.
  bool overlap = true;
  /// Sums of at most so much are reduced as one. Smaller ones begin earlier, larger ones cost
  /// fewer messages; the last ones are smaller.
  std::int64_t bucket_bytes = std::int64_t{4} << 20;
  /// Other than none: each flat allocation is summed as one by a Compressor, whose sums are not
  /// exact, after the rows agree: what is kept is converted by the window's total weight. So there
  /// are no buckets and no overlap.
  Compression compress = Compression::none;
  /// Where each rank steps a part of the parameters: sums go to their owners alone, added in order
  /// of rank, and half as much is sent. Null: all ranks have all sums.
  std::shared_ptr<const Sharding> sharding = nullptr;
};

/// Whether ranks' sums of this kind can be added without rounding them further: fp32, fp64, fixed.
bool adds_up(accum::Accumulation accumulation);

/// What the ranks' parts of a window came to together.
struct WindowTotals {
  double weight = 0;
  double loss_sum = 0;
  std::int64_t micro_batches = 0;  ///< committed
  std::int64_t quarantined = 0;
  std::vector<double> rank_sums;  ///< what set_rank_sums() gave, added up over ranks
  double reduce_seconds = 0;      ///< from the first collective to the end of the last
  double exposed_seconds = 0;     ///< of it, after the backward: what it adds to the step
  std::int64_t wire_bytes = 0;    ///< sent by this rank
};

/// One reduction of the gradient sums per window, whatever the number of micro-batches: local ones
/// only add, and buckets of the flat buffer are summed over the ranks once (Li et al., "PyTorch
/// Distributed", arXiv:2006.15704, without its division by the number of ranks).
///
/// Buckets begin in the order in which rank 0 saw them become final in its first window, which it
/// tells the others. With overlap each begins as soon as it and those before it are final: in the
/// backward of the micro-batch that begin_micro_batch(true) announced, by which contribution it
/// may be, and the rest when the window closes. So
/// parameters that are not used on some ranks, and ranks without micro-batches, which contribute
/// zeros, need no further agreement. The first window is reduced at its close.
///
/// Around the sums the ranks exchange one row of numbers each: window, weight, loss, what went
/// wrong, contributions and fixed-point units by slot. From these rows, the same everywhere, all
/// decide alike: a rank whose sums changed after their reduction began (memory, a gradient that is
/// not finite), or fixed-point units that differ, send all ranks back to make their sums anew; they
/// are then reduced after the rows agree. No rank steps on its own judgement, and none gets the
/// sums of another window: where windows differ, reduce() throws a runtime Error on all ranks.
///
/// For CPU buffers whose sums add up; in Accumulation::fixed they have the same bits for any number
/// of ranks.
class DeferredReduce final : public accum::Reduction {
 public:
  /// All ranks construct it with parameters of the same shapes and the same options. Throws a usage
  /// Error where the buffer's sums cannot be added over ranks without rounding them further, or are
  /// not fp32 and to be compressed.
  DeferredReduce(std::shared_ptr<Group> group, std::shared_ptr<accum::GradientBuffer> buffer,
                 ReduceOptions options = {});
  ~DeferredReduce() override;

  /// Before each micro-batch. `is_last` of the window's: its backward may be overlapped.
  void begin_micro_batch(bool is_last);
  /// What the reduction has taken of the backward passes' time, since it was made.
  double seconds_in_backward() const;
  /// Numbers that the ranks add up at the window's close. As many on each rank, always.
  void set_rank_sums(std::vector<double> rank_sums);
  /// The totals are those of the last window that was reduced.
  const WindowTotals& totals() const;

  /// What compression keeps of all ranks together (Compressor::state); nothing without it. Between
  /// windows, and all ranks call it. What it sends is in no window's wire_bytes.
  NamedParameters state();
  /// On all ranks. Throws a usage Error as Compressor::load_state does.
  void load_state(const StoredTensors& state);

  Outcome reduce(accum::GradientBuffer& buffer, const Share& share) override;
  const accum::SumShard* shard() const override;
  void withdraw() noexcept override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::distributed
