#pragma once

#include <cstdint>
#include <optional>

namespace accrue::adapt {

/// Squared norms of one window's gradient in one geometry: of its mean, and of the means of
/// disjoint parts of it, such as the first micro-batch of each rank.
struct NoiseSample {
  double weight = 0;               ///< of the window, in terms of the loss; > 0
  double squared_norm = 0;         ///< of the window's mean gradient
  double part_squared_norm = 0;    ///< of a part's mean gradient; averaged over the parts
  double part_inverse_weight = 0;  ///< 1 / weight of a part; averaged over the parts
};

/// The estimate from one window of the gradient G of all data and of the noise around it.
struct NoiseEstimate {
  double variance = 0;          ///< tr(Sigma) per unit of weight
  double squared_gradient = 0;  ///< |G|^2; may be negative, since the estimate is unbiased
};

/// The unbiased estimates of McCandlish et al., arXiv:1812.06162, appendix A.1, from E|g_b|^2 =
/// |G|^2 + tr(Sigma) / b at two weights. Returns nothing if the parts weigh as much as the window
/// (a single micro-batch contains no information on noise), or if a value is not finite.
std::optional<NoiseEstimate> estimate_noise(const NoiseSample& sample);

/// A noise scale with its confidence interval, in units of weight.
struct NoiseScale {
  /// tr(Sigma) / |G|^2: the batch at which noise and signal are equal. Absent if the average of
  /// |G|^2 is not above 0, for example if the batch is far below the noise scale.
  std::optional<double> value = {};
  /// >= 0. At least 9 of 10 intervals from `low` to `high` contain the true value (19 of 20 without
  /// an upper end).
  double low = 0;
  std::optional<double> high = {};  ///< absent: unbounded
  double variance = 0;              ///< tr(Sigma) per unit of weight, averaged
};

/// Converts to another unit; one unit of weight is `factor` of the new units.
NoiseScale in_units(NoiseScale noise, double factor);

/// Averages over windows, separately for numerator and denominator, as in the paper: the newest
/// window counts 1, the one before it `decay`, and so on. Early in a run gradients shrink by large
/// factors, and the first windows would dominate; so until `decay` is reached, the weight of a
/// window grows about as the square of its number. Plain data, saved in checkpoints.
class NoiseAverage {
 public:
  /// `decay` is in (0, 1). The effective number of windows, by the variance of the average, is (1 +
  /// decay) / (1 - decay).
  explicit NoiseAverage(double decay = 0.98);

  /// Ignores an estimate if it or its square is not finite.
  void add(const NoiseEstimate& estimate);
  std::int64_t windows() const { return state_.windows; }
  /// Returns nothing before the second window. The interval is Fieller's for a ratio (Fieller,
  /// "Some problems in interval estimation", 1954), from the variances and the covariance of the
  /// weighted windows and Student's quantile for the effective number of windows. It has no upper
  /// end if the average of |G|^2 cannot be distinguished from 0, and neither end (0 and absent) up
  /// to four effective windows: before the seventh window, or always for a decay of 0.6 or less.
  std::optional<NoiseScale> scale() const;
  std::optional<double> variance() const;          ///< tr(Sigma) per unit of weight
  std::optional<double> squared_gradient() const;  ///< |G|^2, averaged

  /// The state for a resume: weighted sums over the windows. restored() takes the result of
  /// state(), and throws a usage Error if a value is not finite or could not result from windows.
  struct State {
    std::int64_t windows = 0;
    double decay = 0.98;
    double weight = 0, squared_weight = 0;  ///< of the weights, and of their squares
    double variance = 0, gradient = 0;      ///< of both estimates
    double variance_squared = 0, gradient_squared = 0, product = 0;
    bool operator==(const State&) const = default;
  };
  const State& state() const { return state_; }
  static NoiseAverage restored(const State& state);

 private:
  State state_;
};

}  // namespace accrue::adapt
