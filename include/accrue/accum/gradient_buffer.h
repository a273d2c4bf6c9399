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

/// Where gradients go instead of a buffer's sums.
struct FoldInto {
  std::shared_ptr<FoldTarget> target;  ///< null: nowhere, as a trial of the memory needs it
  /// Parameters that are used more than once in a forward pass (tied ones): their contributions to
  /// a micro-batch are kept until its commit and folded as one, unless the target takes parts.
  std::vector<std::string> shared = {};
};

/// The main gradients of a set of parameters: one flat allocation per (device, dtype), slots in
/// reverse order of registration (about the order in which backward finishes them), each aligned to
/// 64 bytes. Tied parameters have one slot, frozen ones none.
///
/// With Accumulation::fp32, fp64 parameters have fp64 slots and all others fp32, which kernels add
/// into. Any other precision is staged (except fp64 for fp64 parameters, which is what fp32 gives
/// them): `main` holds sums of fp64, bf16 or int64, contributions are made in one scratch tensor
/// for all and folded in by the slot, and `.grad` stays undefined between micro-batches.
///
/// Made with FoldInto it holds no sums: `main` has the parameter's shape and no memory, and cannot
/// be read. A contribution is made in scratch memory for all (of the largest parameter that is not
/// shared), checked to be finite, and folded into the target, divided by the window's total weight,
/// which must be known when the window opens. Zeros are not folded: they change nothing.
///
/// Attaches the slots to the parameters on construction and detaches them on destruction. A
/// parameter serves one buffer at a time: Window::open takes it over, and refuses if another
/// window is open.
class GradientBuffer {
 public:
  struct Entry {
    std::string name;
    at::Tensor parameter;
    std::shared_ptr<kernels::GradSlot> slot;
    std::shared_ptr<StagedSum> staged;  ///< null: the sum is `slot->main` as it stands
    std::shared_ptr<FoldedGradient> folded = nullptr;  ///< set if no sum is kept
  };

  /// `rounding_seed` keys Accumulation::bf16_stochastic. Throws a usage Error if a parameter is
  /// no leaf, is not floating point, is already owned by an open window of another buffer, or where
  /// two names are equal.
  explicit GradientBuffer(const NamedParameters& parameters,
                          Accumulation accumulation = Accumulation::fp32,
                          std::uint64_t rounding_seed = 0);
  /// Throws a usage Error also if the target takes no gradient of a parameter, a parameter is
  /// not on the CPU, or a shared name is no parameter's.
  GradientBuffer(const NamedParameters& parameters, FoldInto into);
  ~GradientBuffer();
  GradientBuffer(const GradientBuffer&) = delete;
  GradientBuffer& operator=(const GradientBuffer&) = delete;

  /// The entries are in registration order, without frozen parameters and repeats.
  const std::vector<Entry>& entries() const { return entries_; }
  /// The flat allocations; padding between slots is zero.
  const std::vector<at::Tensor>& flat() const { return flat_; }
  Accumulation accumulation() const { return accumulation_; }
  /// Whether any slot is staged.
  bool is_staged() const { return staging_ != nullptr; }
  /// Whether there are no sums, and contributions are folded elsewhere.
  bool folds() const { return folding_ != nullptr; }
  /// Whether contributions are folded into `target`.
  bool folds_into(const FoldTarget& target) const;
  /// Whether it folds into an optimizer, and so must know a window's total weight beforehand.
  bool needs_total_weight() const;
  /// Whether something was folded that no step followed yet.
  bool is_between_steps() const;
  /// Bytes of sums, compensations and scratch memory.
  std::int64_t bytes() const;

  /// Attaches the slots anew where another buffer took a parameter in the meantime. Throws a usage
  /// Error naming the parameter, and changes nothing, if a window over it is open or it was
  /// moved or converted.
  void claim();
  /// Tells what the parameter of entry `index` was when this was made and is now, where it was
  /// moved to another device or converted to another dtype or shape since, as model->to() does it:
  /// its sum is then of the old kind. Empty if it is as it was.
  std::string conversion(std::size_t index) const;

  /// To be called when window `index` opens, before its first contribution: it keys stochastic
  /// rounding, and fixed-point units take effect.
  void begin_window(std::int64_t index);
  /// To be called after begin_window() of a buffer that folds: all contributions are divided by
  /// `total_weight`.
  void begin_folding(double total_weight);
  /// These are called around each micro-batch of a buffer that folds: `end_micro_batch` folds what
  /// was kept, unless something of it was not finite. `drop_micro_batch` forgets it, and says
  /// whether nothing had been folded, so that it left no trace.
  void begin_micro_batch();
  void end_micro_batch();
  bool drop_micro_batch();
  /// To be called when a window closes: what was not used becomes zero, and the next window's units
  /// are chosen from the sums. With a `shard` this is a collective, and all ranks choose the units
  /// that one rank with all sums would choose.
  void end_window(const SumShard* shard = nullptr);

  /// The exponent s of each fixed-point slot's unit 2^s in the next window (in the open one, while
  /// one is), in order of entries(): what a checkpoint keeps. Empty in any other precision.
  std::vector<int> units() const;
  /// Sets the units from the next window on. Throws a usage Error if there are not as many as
  /// units() has, or a window is open.
  void set_units(const std::vector<int>& units);
  /// Raises the units of the slots that `found_too_large` to what their contributions need, and
  /// clears that mark. Sums and units no longer agree then: the window is to be run again, from
  /// fresh slots. The result does not depend on the order of the contributions.
  void enlarge_units();
  /// Raises the open window's units to `units` where those are larger, since other ranks need them;
  /// the window is then to be run again as after enlarge_units(). `units` are in order of
  /// entries(), as many as units() has.
  void raise_units(const std::vector<int>& units);

  /// A copy of a slot's sum and of what goes with it (compensations), for a checkpoint.
  static at::Tensor saved_sum(const Entry& entry);
  /// Whether `saved` fits this slot, by shape and dtype.
  static bool fits(const Entry& entry, const at::Tensor& saved);
  /// Puts a saved sum back, to the bit; the slot is then not fresh and has `contributions`
  /// contributions.
  static void restore_sum(const Entry& entry, const at::Tensor& saved, std::int64_t contributions);

 private:
  void make_slots();
  void stage(Entry& entry, std::size_t index);
  void make_folding_slots(const FoldInto& into);
  void attach_all();
  void release();
  void judge_staged();
  void plan_units(const SumShard* shard);

  /// What a parameter was when its slot was made.
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

/// Where the values of one slot's gradient are to be read.
struct GradientSource {
  at::Tensor tensor;  ///< contiguous; undefined if they are in `staged`
  std::shared_ptr<const StagedSum> staged;
  std::int64_t first = 0;  ///< the staged element that is element 0 here

  /// A range of this source, as a source of its own.
  GradientSource part(const ElementRange& range) const;
  /// Writes elements [begin, begin + count) to `to`, rounded to its type. Any thread may call it.
  void read(std::int64_t begin, std::int64_t count, float* to) const;
  void read(std::int64_t begin, std::int64_t count, double* to) const;
  /// Copies the values to host memory where they lie elsewhere, for many parts of them to be read.
  GradientSource on_host() const;
  /// All elements times `scale`, in a new contiguous tensor of `parameter`'s shape and dtype, where
  /// the values lie.
  at::Tensor scaled_copy(double scale, const at::Tensor& parameter) const;
};
GradientSource source_of(const GradientBuffer::Entry& entry);

/// Whether `.grad` of this parameter can be a view of its slot. If it cannot (fp16, bf16,
/// staged, folded) it stays undefined between micro-batches, and each layer's gradient pays one
/// pass into the slot.
bool grad_can_view_slot(const GradientBuffer::Entry& entry);

}  // namespace accrue::accum
