#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "accrue/accum/accumulation.h"
#include "accrue/core/rank_slice.h"
#include "accrue/kernels/grad_slot.h"
#include "accum/fold_passes.h"
#include "kernels/backend.h"

namespace accrue::accum {

/// Elements that a thread takes at once: a multiple of kRoundingBlock, and small enough to divide a
/// layer between threads.
inline constexpr std::int64_t kContributionChunk = 1 << 15;

/// The state shared by the staged sums of a buffer: memory for one contribution at a time, and the
/// key of their random numbers.
class Staging {
 public:
  explicit Staging(std::uint64_t rounding_seed) : seed(rounding_seed) {}

  /// Reserves memory for a contribution like `parameter`.
  void reserve(const at::Tensor& parameter);
  /// Lends contiguous memory of `sizes`. Throws a runtime Error if an earlier loan is in use: it
  /// was not returned and a reference to it still exists.
  at::Tensor lend(at::IntArrayRef sizes, at::ScalarType dtype);
  /// Returns the last loan. Throws a runtime Error if there is none.
  at::Tensor take_back();
  std::int64_t bytes() const;

  const std::uint64_t seed;
  std::int64_t window = 0;

 private:
  at::Tensor& scratch(at::ScalarType dtype);
  at::Tensor single_, double_, lent_;
};

/// One slot's sum in a separate precision, and the pass that folds a contribution into it.
class StagedSum : public kernels::GradFold {
 public:
  kernels::Contribution stage() final;
  void take_staged(kernels::GradSlot& slot) final;
  void take(kernels::GradSlot& slot, const at::Tensor& contribution) final;

  /// Writes the values of elements [begin, begin + count) to `to`, rounded to its type.
  virtual void read(std::int64_t begin, std::int64_t count, float* to) const = 0;
  virtual void read(std::int64_t begin, std::int64_t count, double* to) const = 0;

  /// All values, in `dtype`, in a new tensor on the device of the sum.
  virtual at::Tensor values(at::ScalarType dtype) const { return main_.to(dtype, false, true); }
  /// Whether the sum is folded and read in host memory, and not by ATen's operators.
  bool is_in_memory() const { return kernels::passes_over_memory(main_); }
  /// The largest magnitude folded on a device since the last call, without waiting for it;
  /// undefined if there is none. The caller must pass its value to judge().
  at::Tensor take_unjudged() { return std::exchange(unjudged_, {}); }
  /// Marks the slot according to `largest`.
  virtual void judge(kernels::GradSlot& slot, double largest);

  /// Makes the sum zero.
  virtual void clear();
  /// These copy the complete state of the sum, and restore it with the same bits.
  virtual at::Tensor saved() const;
  virtual bool fits(const at::Tensor& saved) const;
  virtual void restore(const at::Tensor& saved);
  /// The memory of the sum in addition to the slot's `main`; undefined if there is none.
  virtual at::Tensor compensation() const { return {}; }
  std::int64_t extra_bytes() const;
  /// All memory of the sum.
  std::vector<at::Tensor> tensors() const;

  StagedSum(std::shared_ptr<Staging> staging, at::Tensor main, at::ScalarType contribution_dtype);

 protected:
  /// Call before the elements of a contribution are folded.
  virtual void prepare(const kernels::GradSlot& /*slot*/) {}
  /// Adds `from` to elements [begin, begin + count), or overwrites them; begin is a multiple of
  /// kRoundingBlock. Returns the largest magnitude, infinity if one is not finite.
  virtual double fold(const float* from, std::int64_t begin, std::int64_t count, bool add) = 0;
  virtual double fold(const double* from, std::int64_t begin, std::int64_t count, bool add);
  /// Folds all elements like fold(), by ATen's operators.
  virtual void fold_tensor(const at::Tensor& contribution, bool add) = 0;

  const Staging& staging() const { return *staging_; }
  template <class T>
  T* data() const {
    return static_cast<T*>(main_.mutable_data_ptr());
  }
  const at::Tensor& main() const { return main_; }
  at::Tensor& main() { return main_; }

 private:
  template <class T>
  double fold_all(const at::Tensor& contribution, bool add);

  void take_over_memory(kernels::GradSlot& slot, const at::Tensor& contribution);
  void take_by_operators(kernels::GradSlot& slot, const at::Tensor& contribution);

  std::shared_ptr<Staging> staging_;
  at::Tensor main_, unjudged_;
  at::ScalarType contribution_dtype_;
};

/// A sum in int64 units of 2^unit (docs/numerics.md, "Fixed point").
class FixedSum final : public StagedSum {
 public:
  FixedSum(std::shared_ptr<Staging> staging, at::Tensor main, at::ScalarType contribution_dtype)
      : StagedSum(std::move(staging), std::move(main), contribution_dtype) {}
  using StagedSum::read;
  void read(std::int64_t begin, std::int64_t count, float* to) const override;
  void read(std::int64_t begin, std::int64_t count, double* to) const override;
  at::Tensor values(at::ScalarType dtype) const override;
  void judge(kernels::GradSlot& slot, double largest) override;

  /// The exponent of the next window's unit, and of the open window's.
  int next_unit() const { return next_unit_; }
  void set_next_unit(int unit) { next_unit_ = unit; }
  void begin_window() { unit_ = next_unit_; }
  /// Takes the unit that the contributions marked as too large need.
  void enlarge() { unit_ = next_unit_ = needed_; }
  void raise(int unit) { unit_ = next_unit_ = std::max(next_unit_, unit); }
  /// The number of bits of the largest magnitude in a range of the sum, in units; 0 if all are
  /// zero.
  int largest_bits(const ElementRange& range) const;
  /// Selects the next unit from the largest_bits() of the closed window's sum.
  void plan(int bits);

 protected:
  using StagedSum::fold;
  void prepare(const kernels::GradSlot& slot) override;
  double fold(const float* from, std::int64_t begin, std::int64_t count, bool add) override;
  double fold(const double* from, std::int64_t begin, std::int64_t count, bool add) override;
  void fold_tensor(const at::Tensor& contribution, bool add) override;

 private:
  static constexpr int kInitialUnit = -40;
  FixedScale scale() const;

  int unit_ = kInitialUnit, next_unit_ = kInitialUnit, needed_ = kInitialUnit;
};

/// `index` is the slot's number in its buffer.
std::shared_ptr<StagedSum> make_staged_sum(Accumulation kind, std::shared_ptr<Staging> staging,
                                           const at::Tensor& main, const at::Tensor& parameter,
                                           std::size_t index);

}  // namespace accrue::accum
