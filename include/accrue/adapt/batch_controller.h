#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accrue/adapt/noise_scale.h"
#include "accrue/core/enum_words.h"

namespace accrue::adapt {

enum class BatchRule { fixed, noise_scale, norm_test, seesaw, critical };
/// The words of adapt.batch, the default first.
inline constexpr auto batch_rule_words =
    enum_words<BatchRule>({{BatchRule::fixed, "fixed"},
                           {BatchRule::noise_scale, "noise-scale"},
                           {BatchRule::norm_test, "norm-test"},
                           {BatchRule::seesaw, "seesaw"},
                           {BatchRule::critical, "critical"}});

/// Whether the decisions of the rule depend on the measured noise.
bool measures_noise(BatchRule rule);

/// The range from which a rule may choose, in the batch's unit (tokens or samples); all values are
/// above 0. Batches are whole multiples of `quantum`, at least one. If `least` and `most`
/// contradict each other, `most` applies.
struct BatchBounds {
  double least = 1, most = 1;
  double quantum = 1;  ///< a sample, or a micro-batch if only their number may change
  /// The largest batch that fits in one forward and backward pass. Used only in reasons.
  double one_pass = 1;
};

/// All inputs of a decision. Batches and noise are in the batch's unit.
struct BatchFacts {
  double batch = 1;       ///< the current batch
  double base_batch = 1;  ///< as stated in the config
  std::optional<NoiseScale> noise = {};
  std::int64_t windows_measured = 0;     ///< windows that went into `noise` since the last change
  double windows_wanted = 20;            ///< required before a rule that measures acts
  std::optional<double> rate_left = {};  ///< of seesaw: the schedule's learning rate over its peak,
                                         ///< after the warm-up; absent in it
};

struct BatchDecision {
  double batch = 1;  ///< from the next window on
  /// Of seesaw: the learning rate over its peak, instead of the schedule's.
  std::optional<double> rate_left = {};
  std::string reason = {};  ///< a sentence for people; empty if the batch does not change
};

/// Decides the next window's batch. A pure function. A current batch outside `bounds` is first
/// brought inside, except by fixed. Sources and thresholds of the rules:
///
/// - fixed: the current batch, whatever the bounds.
/// - noise_scale: the noise scale itself (arXiv:1812.06162, section 2.3), up and down. The batch
///   changes only if the interval excludes the current batch and the noise scale is at least 1.25
///   times or at most 0.8 of it, and by a factor of at most 2 at once. If the new batch fits in one
///   pass (K = 1), the reason states that accumulation cannot pay.
/// - norm_test: the batch is large enough while tr(Sigma) / batch <= |G|^2 (Byrd, Chin, Nocedal,
///   Wu, "Sample size selection in optimization methods for machine learning", 2012, with
///   theta = 1). If it is not, and the interval confirms it, the batch grows until it is, by a
///   factor of at most 2 at once. It never shrinks.
/// - critical: doubles the batch if the lower end of the noise scale's interval is at least twice
///   the batch, since the critical batch grows early in training and then stays constant
///   (arXiv:2505.23971). It never shrinks.
/// - seesaw: if the schedule would have halved the learning rate k times, the batch is 2^k times
///   the stated one and the rate 2^(-k/2) of its peak (arXiv:2510.14717, algorithm 1). Doublings
///   that `most` forbids halve the rate as the schedule does. During the warm-up the batch is the
///   stated one and the rate the schedule's. At a rate of 0, the end of a cosine, the current
///   batch is kept.
///
/// If the gradient cannot be distinguished from 0, the noise scale counts as unbounded, and only
/// the lower end of its interval decides.
BatchDecision decide_batch(BatchRule rule, const BatchBounds& bounds, const BatchFacts& facts);

enum class RateRule { none, linear, sqrt, adascale };
/// The words of adapt.lr_rule, the default first.
inline constexpr auto rate_rule_words = enum_words<RateRule>({{RateRule::none, "none"},
                                                              {RateRule::linear, "linear"},
                                                              {RateRule::sqrt, "sqrt"},
                                                              {RateRule::adascale, "adascale"}});

/// The factor for the schedule's learning rate at `batch`, if it was chosen for `base_batch`: their
/// ratio (arXiv:1706.02677), its square root (arXiv:2006.09092, for Adam), or AdaScale's gain
/// (arXiv:2007.05105, section 3), (n + 1) / (n base_batch / batch + 1) with n = noise scale /
/// base_batch. The gain is the ratio itself if the gradient cannot be distinguished from 0, and 1
/// before the first measurement.
double rate_factor(RateRule rule, double batch, double base_batch,
                   const std::optional<NoiseScale>& noise);

/// The decay of the second moment at `batch`, with the half-life (in the batch's unit) that
/// `beta2` has at `base_batch` (arXiv:2507.07101): beta2^(batch / base_batch). RateRule::none
/// returns `beta2`. Momentum (beta1) does not change under any rule: the same paper finds that it
/// need not.
double beta2_at(double beta2, RateRule rule, double batch, double base_batch);

}  // namespace accrue::adapt
