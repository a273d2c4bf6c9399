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

/// `parameters` without frozen ones; tied ones appear once, under their first name.
NamedParameters trained_of(const NamedParameters& parameters);

/// Two groups, "decayed" and "undecayed": only matrices (dimension >= 2) decay. One group if
/// `decay_all`.
std::vector<ParameterGroup> default_groups(const NamedParameters& parameters, double weight_decay,
                                           bool decay_all);

/// A learning rate, as a multiple of the schedule's, for parameters whose names match a pattern
/// (core/name_pattern.h).
struct PatternRate {
  std::string match;
  double factor = 1;
};

/// Divides `groups` such that each parameter has the factor of the first of `rates` that matches
/// it; parameters without a match stay unchanged. The part of a group is named GROUP:PATTERN.
/// Throws a usage Error that lists the names if a pattern matches none of them.
std::vector<ParameterGroup> split_by_rates(const std::vector<ParameterGroup>& groups,
                                           const std::vector<PatternRate>& rates);

/// The part of one tensor of the whole optimizer's state that the optimizer of a RankSlice keeps.
struct StateRange {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of the whole tensor
  ElementRange range;               ///< the elements kept, possibly none
  at::Tensor values;                ///< those elements, one-dimensional, in the optimizer's memory
};

/// Takes one step per window. It consumes a MeanGradient, which only a closed window makes, of
/// exactly the parameters it was constructed with (usage Error otherwise). A parameter that the
/// window did not use has a zero gradient: it decays, and its momentum continues.
///
/// An optimizer made for a RankSlice (StateOptions::slice) steps only its range of each parameter.
/// The window's buffer holds the gradient of that slice, or of everything.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Updates the parameters in place with learning rate `lr` (>= 0), and applies the gradient's
  /// scale. The parameters' version counters increase.
  virtual void step(accum::MeanGradient&& gradient, double lr) = 0;

  /// Sets how far the schedule has fallen for later steps, so that groups with a factor fall to the
  /// schedule's floor; without it a group's rate is its factor times the step's. An optimizer of
  /// torch::optim ignores it, because it has its own groups and rates.
  virtual void set_fall(const std::optional<RateFall>& /*fall*/) {}

  /// Sets the decay of second moments for the next step, if it differs from the constructor's, and
  /// the logarithm of the product of the decays of all earlier steps, for the bias correction. Only
  /// Adam's optimizers use it.
  virtual void set_second_moment(double /*beta2*/, double /*log_decay*/) {}

  /// The state for a resume, as named tensors ("exp_avg.<parameter>", "step"; for 8-bit codes also
  /// "exp_avg_scale.<parameter>"). They are the optimizer's memory, so the next step changes them.
  /// An optimizer of a RankSlice returns the parts that it keeps, one-dimensional.
  virtual NamedParameters state() const = 0;
  /// For an optimizer of a RankSlice: the places of its tensors in the whole state, in the same
  /// order on all ranks. "step", which every rank keeps, is not among them. Empty for an optimizer
  /// that owns everything.
  virtual std::vector<StateRange> ranges() const { return {}; }
  /// Copies whole tensors in, one after the other. An optimizer of a RankSlice takes its ranges of
  /// them, and reads each tensor through a temporary. Throws a usage Error that names the first
  /// missing, extra or misshapen tensor; nothing is changed then.
  virtual void load_state(const StoredTensors& state) = 0;
  void load_state(const NamedParameters& state) { load_state(stored(state)); }
  virtual std::int64_t state_bytes() const = 0;
  /// The target of gradients for a buffer made with FoldInto; null for an optimizer that reads a
  /// buffer's sums. Lives as long as the optimizer.
  virtual std::shared_ptr<accum::FoldTarget> fold_target() { return nullptr; }
};

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  /// At least the smallest normal fp32 number, so that a zero gradient gives 0 / eps and not 0 / 0.
  double eps = 1e-8;
  /// True for AdamW (Loshchilov and Hutter, arXiv:1711.05101), false for Adam with L2.
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

/// Each updates like torch.optim's optimizer of that name, in one pass over memory. The state is
/// allocated here, so a step of contiguous CPU parameters cannot run out of memory (others need
/// temporaries of a parameter's size): "exp_avg" and "exp_avg_sq" (Adam), "square_avg" (RMSProp),
/// "momentum" (if it is not 0). Parameters are fp32 or fp64; training in lower precision keeps fp32
/// masters. State in bf16 or int8 needs fp32 parameters on the CPU. Throws a usage Error for
/// another dtype, if a group names a parameter that is frozen or not in `parameters`, if a
/// parameter is in no group or in two, or if an option is out of range; for a RankSlice also if a
/// parameter is not contiguous and on the CPU.
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
/// the window's total weight) when it is computed, and there is no gradient buffer. The buffer of
/// the windows is made with FoldInto{fold_target()}; a step takes that window's MeanGradient. State
/// is decayed at a window's first contribution, so a window without one changes nothing; in the
/// middle of a window state() is a runtime Error. Parameters must be contiguous and on the CPU. The
/// state is kept in fp32 or bf16, and whole: a RankSlice is refused.
///
/// AdamA (Zhang et al., "Adam Accumulation to Reduce Memory Footprints of both Activations and
/// Gradients for Large-scale DNN Training", arXiv:2305.19982) with AdamW's decay. It is not Adam:
/// the second moment takes the sum of the squares (1 - beta2) g_i^2 instead of the square of the
/// sum, so it depends on how a window is split (docs/numerics.md).
std::unique_ptr<Optimizer> make_adama(const NamedParameters& parameters,
                                      std::vector<ParameterGroup> groups,
                                      const AdamOptions& options, const StateOptions& state = {});
/// Updates like make_sgd's optimizer with momentum above 0, up to rounding.
std::unique_ptr<Optimizer> make_folded_sgd(const NamedParameters& parameters,
                                           std::vector<ParameterGroup> groups,
                                           const SgdOptions& options,
                                           const StateOptions& state = {});

}  // namespace accrue::optim
