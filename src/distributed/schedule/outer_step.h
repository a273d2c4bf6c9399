#pragma once

#include <cstdint>

#include "accrue/core/stored_tensor.h"

namespace accrue::distributed {

struct OuterOptions {
  std::int64_t local_steps = 1;  ///< inner steps of a round, >= 1
  double lr = 1;                 ///< > 0
  double momentum = 0;           ///< Nesterov's, in [0, 1)
};

/// Rounds of local steps: ranks train apart for `local_steps` optimizer steps, then take one outer
/// step together with the mean of what they moved, so that they communicate once a round. The outer
/// gradient is the round's start less the mean of the ranks' parameters; with velocity v
///
///     v <- momentum v + gradient;  parameters <- start - lr (gradient + momentum v)
///
/// as torch.optim.SGD's Nesterov does. lr 1 and momentum 0 set every rank to the mean of the
/// parameters (local SGD: Stich, arXiv:1805.09767); DiLoCo (Douillard et al., arXiv:2311.08105)
/// takes lr 0.7 and momentum 0.9. The inner optimizer's state stays with its rank.
///
/// The caller forms the mean: plain, or weighted by what ranks trained on (McMahan et al.,
/// arXiv:1602.05629) where ranks have unequal work. The difference, small beside the parameters, is
/// also what may be compressed.
class OuterStep {
 public:
  /// The first round starts at the parameters as they are, which must be the same on every rank.
  /// They are kept by reference. Throws a usage Error where an option is out of range, there is no
  /// parameter, or parameters are not all fp32 or all fp64.
  OuterStep(NamedParameters parameters, const OuterOptions& options);

  /// Whether a round ends after this many inner steps of the run.
  bool ends_round(std::int64_t steps) const { return steps % options_.local_steps == 0; }
  /// The round's start less this rank's parameters: one new flat tensor, in order of the
  /// parameters.
  at::Tensor difference() const;
  /// Takes the outer step, from which the next round starts: writes the parameters in place, with
  /// the same bits on every rank that has the same `mean_difference`. Throws a usage Error where
  /// that has another shape or dtype, a runtime Error where it is not finite; nothing is changed
  /// then.
  void step(const at::Tensor& mean_difference);

  /// "start" and, where there is momentum, "velocity": flat, in this object's own memory, and the
  /// same on every rank. Every resume needs them, and may have another number of ranks at a round's
  /// end.
  NamedParameters state() const;
  /// Copies what state() gave in. Throws a usage Error that names the first missing, extra or
  /// misshapen tensor; nothing is changed then.
  void load_state(const StoredTensors& state);
  void load_state(const NamedParameters& state) { load_state(stored(state)); }

 private:
  at::Tensor flat_parameters() const;
  void write_parameters(const at::Tensor& flat) const;

  NamedParameters parameters_;
  OuterOptions options_;
  at::Tensor start_;
  at::Tensor velocity_;  ///< undefined without momentum
};

}  // namespace accrue::distributed
