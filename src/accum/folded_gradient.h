#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "accrue/accum/fold_target.h"
#include "accrue/kernels/grad_slot.h"
#include "accum/staged_sum.h"

namespace accrue::accum {

/// The state shared by the slots of a folding buffer.
struct Folding {
  std::shared_ptr<FoldTarget> target;  ///< null: contributions are checked and discarded
  Staging staging{0};
  double scale = 0;               ///< 1 / the window's total weight; 0: nothing is folded
  std::int64_t folded = 0;        ///< contributions of this micro-batch
  bool found_non_finite = false;  ///< in this micro-batch, whose later contributions are not folded
};

/// A slot without a sum: a contribution is computed in scratch memory, checked, and folded.
class FoldedGradient : public kernels::GradFold {
 public:
  FoldedGradient(std::shared_ptr<Folding> folding, std::string name, at::Tensor parameter);

  void take(kernels::GradSlot& slot, const at::Tensor& contribution) override;

  virtual void begin_micro_batch() = 0;
  /// Marks the slot if the micro-batch's kept contributions are not finite.
  virtual void check(kernels::GradSlot& /*slot*/) {}
  /// Folds the kept contributions, if all of the micro-batch is finite.
  virtual void end_micro_batch() {}
  /// Bytes of its own scratch memory.
  virtual std::int64_t kept_bytes() const { return 0; }

 protected:
  /// The contribution's largest magnitude. Marks the slot if it is not finite.
  double examine(kernels::GradSlot& slot, const at::Tensor& contribution);
  /// Folds, unless the contribution is all zero or the micro-batch is not finite.
  void fold(const at::Tensor& contribution, double largest);

  Folding& folding() const { return *folding_; }
  const std::string& name() const { return name_; }
  const at::Tensor& parameter() const { return parameter_; }
  at::ScalarType contribution_dtype() const;

 private:
  std::shared_ptr<Folding> folding_;
  std::string name_;
  at::Tensor parameter_;
};

/// Folds at once, from scratch memory that all slots share. If the target does not take parts, a
/// second contribution in one micro-batch is a usage Error that names the parameter.
std::shared_ptr<FoldedGradient> make_folded_at_once(std::shared_ptr<Folding> folding,
                                                    std::string name, const at::Tensor& parameter);
/// Adds up a micro-batch's contributions in separate scratch memory, and folds at its commit.
std::shared_ptr<FoldedGradient> make_folded_at_commit(std::shared_ptr<Folding> folding,
                                                      std::string name,
                                                      const at::Tensor& parameter);

}  // namespace accrue::accum
