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

/// Whether the rule's decisions follow from the measured noise.
bool measures_noise(BatchRule rule);

/// Within what a rule may choose, in the batch's unit (tokens or samples); all are above 0. Batches
/// are whole multiples of `quantum`, at least one; where `least` and `most` contradict each other,
/// `most` holds.
struct BatchBounds {
  double least = 1, most = 1;
  double quantum = 1;  ///< a sample, or a micro-batch if only their number may change
  /// What one pass forward and backward can take, for reasons: up to it nothing is accumulated.
  double one_pass = 1;
};

/// All that a decision is made of; batches and noise are in the batch's unit.
struct BatchFacts {
  double batch = 1;       ///< in force
  double base_batch = 1;  ///< as the config states it
  std::optional<NoiseScale> noise = {};
  std::int64_t windows_measured = 0;     ///< that went into `noise` since the last change
  double windows_wanted = 20;            ///< before a rule that measures changes anything
  std::optional<double> rate_left = {};  ///< of seesaw: the schedule's learning rate over its peak,
                                         ///< behind the warm-up; absent in it
};

struct BatchDecision {
  double batch = 1;  ///< in force from the next window on
  /// Of seesaw: the learning rate over its peak, in place of the schedule's.
  std::optional<double> rate_left = {};
  std::string reason = {};  ///< a sentence for people; empty if the batch stays
};

/// Decides the next window's batch. Pure. A batch in force that `bounds` do not allow is brought
/// inside first, except by fixed. Each rule's source and thresholds:
///
/// - fixed: the batch in force, whatever the bounds.
/// - noise_scale: the noise scale itself (arXiv:1812.06162, section 2.3), up and down. It changes
///   only if the spread excludes the batch in force and the noise scale is at least 1.25 times
///   or at most 0.8 of it, and by a factor of at most 2 at once. If it leads to a
///   batch that one pass takes (K = 1), the reason says that accumulation cannot pay.
/// - norm_test: the batch is enough while tr(Sigma) / batch <= |G|^2 (Byrd, Chin, Nocedal, Wu,
///   "Sample size selection in optimization methods for machine learning", 2012, with theta = 1);
///   if it is not, and the spread says so, it grows to what is, by at most 2 at once. It never
///   shrinks.
/// - critical: doubles if the noise scale is at least twice the batch by its spread's lower end,
///   as the critical batch grows early in training and then stays (arXiv:2505.23971). It never
///   shrinks.
/// - seesaw: if the schedule would have halved the learning rate k times, the batch is 2^k times
///   the stated one and the rate 2^(-k/2) of its peak (arXiv:2510.14717, algorithm 1). Doublings
///   that `most` forbids halve the rate as the schedule does. In the warm-up the batch is the
///   stated one and the rate the schedule's; at a rate of 0, where a cosine ends, the batch in
///   force stays.
///
/// If the gradient cannot be told from 0, the noise scale counts as unbounded, and its spread's
/// lower end decides alone.
BatchDecision decide_batch(BatchRule rule, const BatchBounds& bounds, const BatchFacts& facts);

enum class RateRule { none, linear, sqrt, adascale };
/// The words of adapt.lr_rule, the default first.
inline constexpr auto rate_rule_words = enum_words<RateRule>({{RateRule::none, "none"},
                                                              {RateRule::linear, "linear"},
                                                              {RateRule::sqrt, "sqrt"},
                                                              {RateRule::adascale, "adascale"}});

/// What the schedule's learning rate is multiplied with at `batch`, where it was meant for
/// `base_batch`: their ratio (arXiv:1706.02677), its square root (arXiv:2006.09092 for Adam), or
/// AdaScale's gain (arXiv:2007.05105, section 3) of noise and gradient, (n + 1) / (n base_batch /
/// batch + 1) with n = noise scale / base_batch; the ratio itself if the gradient cannot be told
/// from 0, and 1 if nothing was measured yet.
double rate_factor(RateRule rule, double batch, double base_batch,
                   const std::optional<NoiseScale>& noise);

/// The second moment's decay at `batch` with the half-life, counted in the batch's unit, that
/// `beta2` has at `base_batch` (arXiv:2507.07101): beta2^(batch / base_batch). `beta2` itself under
/// RateRule::none. Momentum (beta1) is left as it is under every rule: the same work finds that it
/// need not follow.
double beta2_at(double beta2, RateRule rule, double batch, double base_batch);

}  // namespace accrue::adapt
