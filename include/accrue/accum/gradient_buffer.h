#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accrue/accum/accumulation.h"
#include "accrue/accum/fold_target.h"
#include "accrue/core/parameter.h"
#include "accrue/core/rank_slice.h"
#include "accrue/kernels/grad_slot.h"

namespace accrue::accum {

class FixedSum;
class FoldedGradient;
struct Folding;
class StagedSum;
class Staging;
class SumShard;

/// The target of gradients that are not summed in a buffer.
struct FoldInto {
  std::shared_ptr<FoldTarget> target;  ///< null: gradients are discarded, for memory trials
  /// Parameters that a forward pass uses more than once (tied ones). Their contributions to a
  /// micro-batch are kept until its commit and folded as one, unless the target takes parts.
  std::vector<std::string> shared = {};
};

/// The main gradients of a set of parameters: one flat allocation per (device, dtype), with slots
/// in reverse registration order (about the order in which backward finishes them), aligned to 64
/// bytes. Tied parameters share one slot, frozen ones have none.
///
/// With Accumulation::fp32, fp64 parameters have fp64 slots and all others fp32 slots; kernels add
/// into them directly. Any other precision is staged (except fp64 for fp64 parameters, which equals
/// fp32 for them): `main` holds sums of fp64, bf16 or int64, contributions are computed in one
/// shared scratch tensor and added by the slot, and `.grad` stays undefined between micro-batches.
///
/// With FoldInto there are no sums: `main` has the parameter's shape but no memory, and cannot be
/// read. A contribution is computed in shared scratch memory (of the size of the largest parameter
/// that is not shared), checked to be finite, divided by the window's total weight, which must be
/// known when the window opens, and folded into the target. Zeros are not folded.
///
/// Attaches the slots to the parameters on construction and detaches them on destruction. A
/// parameter belongs to one buffer at a time: Window::open takes it over, and refuses if another
/// window is open.
class GradientBuffer {
 public:
  struct Entry {
    std::string name;
    at::Tensor parameter;
    std::shared_ptr<kernels::GradSlot> slot;
    std::shared_ptr<StagedSum> staged;                 ///< null: the sum is `slot->main` itself
    std::shared_ptr<FoldedGradient> folded = nullptr;  ///< set if no sum is kept
  };

  /// `rounding_seed` keys Accumulation::bf16_stochastic. Throws a usage Error if a parameter is not
  /// a leaf, is not floating point, or belongs to an open window of another buffer, or if two names
  /// are equal.
  explicit GradientBuffer(const NamedParameters& parameters,
                          Accumulation accumulation = Accumulation::fp32,
                          std::uint64_t rounding_seed = 0);
  /// Also throws a usage Error if the target does not take the gradient of a parameter, a parameter
  /// is not on the CPU, or a shared name is not the name of a parameter.
  GradientBuffer(const NamedParameters& parameters, FoldInto into);
  ~GradientBuffer();
  GradientBuffer(const GradientBuffer&) = delete;
  GradientBuffer& operator=(const GradientBuffer&) = delete;

  /// The entries in registration order, without frozen parameters and repeats.
  const std::vector<Entry>& entries() const { return entries_; }
  /// The flat allocations; padding between slots is zero.
  const std::vector<at::Tensor>& flat() const { return flat_; }
  Accumulation accumulation() const { return accumulation_; }
  /// Whether any slot is staged.
  bool is_staged() const { return staging_ != nullptr; }
  /// Whether there are no sums, and contributions are folded into a target.
  bool folds() const { return folding_ != nullptr; }
  /// Whether contributions are folded into `target`.
  bool folds_into(const FoldTarget& target) const;
  /// Whether it folds into an optimizer, and so must know a window's total weight in advance.
  bool needs_total_weight() const;
  /// Whether something was folded that no step has followed yet.
  bool is_between_steps() const;
  /// Bytes of sums, compensations and scratch memory.
  std::int64_t bytes() const;

  /// Attaches the slots again if another buffer has taken a parameter. Throws a usage Error naming
  /// the parameter, and changes nothing, if a window over it is open or if it was moved or
  /// converted.
  void claim();
  /// Describes how the parameter of entry `index` changed since construction, if it was moved to
  /// another device or converted to another dtype or shape, for example by model->to(): its sum
  /// then still has the old kind. Empty if it is unchanged.
  std::string conversion(std::size_t index) const;

  /// Call when window `index` opens, before its first contribution. The index keys stochastic
  /// rounding, and new fixed-point units take effect.
  void begin_window(std::int64_t index);
  /// Call after begin_window() of a buffer that folds: all contributions are divided by
  /// `total_weight`.
  void begin_folding(double total_weight);
  /// Call these around each micro-batch of a buffer that folds. `end_micro_batch` folds the
  /// contributions that were kept, if all are finite. `drop_micro_batch` discards them, and returns
  /// whether nothing had been folded, so that the micro-batch left no trace.
  void begin_micro_batch();
  void end_micro_batch();
  bool drop_micro_batch();
  /// Call when a window closes: slots that were not used become zero, and the units of the next
  /// window are chosen from the sums. With a `shard` this is a collective, and all ranks choose the
  /// units that one rank with all sums would choose.
  void end_window(const SumShard* shard = nullptr);

  /// The exponent s of the unit 2^s of each fixed-point slot in the next window (in the open one,
  /// while one is open), in order of entries(), for checkpoints. Empty in any other precision.
  std::vector<int> units() const;
  /// Sets the units from the next window on. Throws a usage Error if their number differs from that
  /// of units(), or if a window is open.
  void set_units(const std::vector<int>& units);
  /// Raises the units of slots marked `found_too_large` to what their contributions need, and
  /// clears the mark. Sums and units then disagree: run the window again, from fresh slots. The
  /// result does not depend on the order of the contributions.
  void enlarge_units();
  /// Raises the units of the open window to `units` where those are larger, because other ranks
  /// need them. Run the window again afterwards, as after enlarge_units(). `units` are in order of
  /// entries(), as many as units() has.
  void raise_units(const std::vector<int>& units);

  /// A copy of a slot's sum and its compensation, for a checkpoint.
  static at::Tensor saved_sum(const Entry& entry);
  /// Whether `saved` fits this slot, by shape and dtype.
  static bool fits(const Entry& entry, const at::Tensor& saved);
  /// Restores a saved sum, with the same bits. The slot then counts as used, with `contributions`
  /// contributions.
  static void restore_sum(const Entry& entry, const at::Tensor& saved, std::int64_t contributions);

 private:
  void make_slots();
  void stage(Entry& entry, std::size_t index);
  void make_folding_slots(const FoldInto& into);
  void attach_all();
  void release();
  void judge_staged();
  void discard_sums() const;
  void plan_units(const SumShard* shard);

  /// The properties of a parameter when its slot was made.
  struct Kind {
    at::ScalarType dtype;
    at::Device device;
    std::vector<std::int64_t> sizes;
  };

  Accumulation accumulation_ = Accumulation::fp32;
  std::uint64_t rounding_seed_ = 0;
  std::vector<Entry> entries_;
  std::vector<Kind> kinds_;  ///< in order of entries_
  std::vector<at::Tensor> flat_;
  std::shared_ptr<Staging> staging_;
  std::shared_ptr<Folding> folding_;
  std::vector<FixedSum*> fixed_;  ///< in order of entries_
};

/// The place from which one slot's gradient is read.
struct GradientSource {
  at::Tensor tensor;  ///< contiguous; undefined if the values are in `staged`
  std::shared_ptr<const StagedSum> staged;
  std::int64_t first = 0;  ///< index of the staged element that is element 0 here

  /// Returns a range of this source as a source.
  GradientSource part(const ElementRange& range) const;
  /// Writes elements [begin, begin + count) to `to`, rounded to its type. Thread-safe.
  void read(std::int64_t begin, std::int64_t count, float* to) const;
  void read(std::int64_t begin, std::int64_t count, double* to) const;
  /// The memory that these elements are read from.
  std::vector<at::Tensor> memory_of(const ElementRange& range) const;
  /// Copies the values to host memory if they lie elsewhere, for many partial reads.
  GradientSource on_host() const;
  /// Returns all elements times `scale`, in a new contiguous tensor of `parameter`'s shape and
  /// dtype on the device of the values.
  at::Tensor scaled_copy(double scale, const at::Tensor& parameter) const;
};
GradientSource source_of(const GradientBuffer::Entry& entry);

/// Whether `.grad` of this parameter can be a view of its slot. Otherwise (fp16, bf16, staged,
/// folded) it stays undefined between micro-batches, and the gradient of each layer takes one extra
/// pass into the slot.
bool grad_can_view_slot(const GradientBuffer::Entry& entry);

}  // namespace accrue::accum
