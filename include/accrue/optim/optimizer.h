#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/core/stored_tensor.h"
#include "accrue/optim/schedule.h"
#include "accrue/optim/state_precision.h"

namespace accrue::optim {

/// Parameters that share settings. Every trained parameter is in exactly one group.
struct ParameterGroup {
  std::vector<std::string> names;
  double weight_decay = 0;
  double lr_factor = 1;   ///< its peak as a multiple of the schedule's (RateFall::rate)
  std::string name = {};  ///< for metrics
};

/// `parameters` without frozen ones; tied ones stand once, under their first name.
NamedParameters trained_of(const NamedParameters& parameters);

/// Two groups, "decayed" and "undecayed", of which only the matrices (dimension >= 2) decay; one
/// group with `decay_all`.
std::vector<ParameterGroup> default_groups(const NamedParameters& parameters, double weight_decay,
                                           bool decay_all);

/// A learning rate, as a multiple of the schedule's, for parameters whose names a pattern matches
/// (core/name_pattern.h).
struct PatternRate {
  std::string match;
  double factor = 1;
};

/// `groups`, divided such that each parameter has the factor of the first of `rates` that matches
/// it; what none matches stays as it is. A group's part is named GROUP:PATTERN. Throws a usage
/// Error if a pattern matches none of the names, with what there is.
std::vector<ParameterGroup> split_by_rates(const std::vector<ParameterGroup>& groups,
                                           const std::vector<PatternRate>& rates);

/// What the optimizer of a RankSlice keeps of one tensor of the whole optimizer's state.
struct StateRange {
  std::string name;
  std::vector<std::int64_t> shape;  ///< the whole tensor's
  ElementRange range;               ///< the elements kept, perhaps none
  at::Tensor values;  ///< those elements, one-dimensional, in the optimizer's own memory
};

/// Takes one step per window. It consumes a MeanGradient, which only a closed window makes, of
/// exactly the parameters it was made with (usage Error). What a window did not use has a zero
/// gradient: it decays, and its momentum goes on.
///
/// An optimizer made for a RankSlice (StateOptions::slice) steps only its range of each parameter;
/// the window's buffer holds the gradient of that slice, or of everything.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Updates the parameters in place with learning rate `lr` (>= 0). The gradient's scale is
  /// applied on the way. The parameters' version counters move.
  virtual void step(accum::MeanGradient&& gradient, double lr) = 0;

  /// How far the schedule has fallen in the steps ahead, so that groups with a factor fall to the
  /// schedule's floor; without it a group's rate is its factor times the step's. An optimizer of
  /// torch::optim has groups and rates of its own.
  virtual void set_fall(const std::optional<RateFall>& /*fall*/) {}

  /// The next step's decay of second moments, where it is another one than the optimizer was made
  /// with, and the logarithm of the product of the decays of all steps before it, which the bias
  /// correction needs. Optimizers other than Adam's keep to what they were made with.
  virtual void set_second_moment(double /*beta2*/, double /*log_decay*/) {}

  /// Everything a resume needs, as named tensors ("exp_avg.<parameter>", "step"; of 8-bit codes
  /// also "exp_avg_scale.<parameter>"): plain data, in the optimizer's own memory, so the next step
  /// changes it. An optimizer of a RankSlice gives what it keeps of them, one-dimensional.
  virtual NamedParameters state() const = 0;
  /// An optimizer of a RankSlice says where in the whole state its tensors belong, in an order that
  /// all ranks have. "step", which every rank keeps, is not among them. Empty for an optimizer that
  /// owns everything.
  virtual std::vector<StateRange> ranges() const { return {}; }
  /// Copies whole tensors in, one after the other; an optimizer of a RankSlice takes its ranges of
  /// them, and reads each tensor through a temporary. Throws a usage Error that names the first
  /// missing, extra or misshapen tensor; nothing is changed then.
  virtual void load_state(const StoredTensors& state) = 0;
  void load_state(const NamedParameters& state) { load_state(stored(state)); }
  virtual std::int64_t state_bytes() const = 0;
  /// Where a buffer made with FoldInto is to put gradients; null for an optimizer that reads them
  /// from a buffer's sums. Lives as long as the optimizer.
  virtual std::shared_ptr<accum::FoldTarget> fold_target() { return nullptr; }
};

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps =
      1e-8;  ///< at least the least normal fp32: what has no gradient is 0 / eps, not 0 / 0
  /// Whether this is AdamW (Loshchilov and Hutter, arXiv:1711.05101), and not Adam with L2.
  bool decoupled_decay = true;
};
struct SgdOptions {
  double momentum = 0.9;
};
struct RmsPropOptions {
  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0;
};

/// Each updates as torch.optim's optimizer of that name does, in one pass over memory. State is
/// allocated here, so that no step of contiguous CPU parameters runs out of memory (others take
/// temporaries of a parameter's size): "exp_avg" and "exp_avg_sq" (Adam), "square_avg" (RMSProp),
/// "momentum" (if it is not 0). Parameters are fp32 or fp64; training in lower precision keeps
/// fp32 masters. A state in bf16 or int8 needs fp32 parameters on the CPU. Throw a usage Error for
/// another dtype, if a group names a parameter that is not in `parameters` or is frozen, one is
/// in no group or in two, or an option is out of range; for a RankSlice also if a parameter is
/// not contiguous and on the CPU.
std::unique_ptr<Optimizer> make_adam(const NamedParameters& parameters,
                                     std::vector<ParameterGroup> groups, const AdamOptions& options,
                                     const StateOptions& state = {});
std::unique_ptr<Optimizer> make_sgd(const NamedParameters& parameters,
                                    std::vector<ParameterGroup> groups, const SgdOptions& options,
                                    const StateOptions& state = {});
std::unique_ptr<Optimizer> make_rmsprop(const NamedParameters& parameters,
                                        std::vector<ParameterGroup> groups,
                                        const RmsPropOptions& options,
                                        const StateOptions& state = {});

/// Accumulation inside the optimizer: the state takes each micro-batch's gradient g_i (divided by
/// the window's total weight) as it is made, and no gradient buffer is kept. Their windows' buffer
/// is made with FoldInto{fold_target()}; a step takes that window's MeanGradient. State is decayed
/// when a window's first contribution comes, so a window of which nothing was folded changes
/// nothing; in the middle of one state() is a runtime Error. Parameters are contiguous and on the
/// CPU; the state is kept in fp32 or bf16, and all of it: a RankSlice is refused.
///
/// AdamA (Zhang et al., "Adam Accumulation to Reduce Memory Footprints of both Activations and
/// Gradients for Large-scale DNN Training", arXiv:2305.19982) with AdamW's decay. Not Adam: the
/// second moment takes the sum of the squares (1 - beta2) g_i^2 where Adam's takes the square of
/// the sum, so it depends on how a window is split (docs/numerics.md).
std::unique_ptr<Optimizer> make_adama(const NamedParameters& parameters,
                                      std::vector<ParameterGroup> groups,
                                      const AdamOptions& options, const StateOptions& state = {});
/// Updates as make_sgd's optimizer does with momentum above 0, but for rounding.
std::unique_ptr<Optimizer> make_folded_sgd(const NamedParameters& parameters,
                                           std::vector<ParameterGroup> groups,
                                           const SgdOptions& options,
                                           const StateOptions& state = {});

}  // namespace accrue::optim
