#pragma once

#include <cstdint>
#include <optional>

namespace accrue::adapt {

/// Squared norms of one window's gradient in one geometry: of its mean, and of the means of parts
/// of it that do not overlap, such as the first micro-batch of each rank.
struct NoiseSample {
  double weight = 0;               ///< of the window, in terms of the loss; > 0
  double squared_norm = 0;         ///< of the window's mean gradient
  double part_squared_norm = 0;    ///< of a part's mean gradient; the mean over the parts
  double part_inverse_weight = 0;  ///< 1 / a part's weight; the mean over the parts
};

/// What one window says of the gradient G of all data and of the noise around it.
struct NoiseEstimate {
  double variance = 0;          ///< tr(Sigma) per unit of weight
  double squared_gradient = 0;  ///< |G|^2; may be negative, as an unbiased estimate of a small one
};

/// The unbiased estimates of McCandlish et al., arXiv:1812.06162, appendix A.1, from E|g_b|^2 =
/// |G|^2 + tr(Sigma) / b at two weights. Nothing if the parts weigh as much as the window (one
/// micro-batch, which tells nothing of noise), or a figure is not finite.
std::optional<NoiseEstimate> estimate_noise(const NoiseSample& sample);

/// A noise scale with its spread, in units of weight.
struct NoiseScale {
  /// tr(Sigma) / |G|^2: the batch at which noise and signal are alike. Absent if the average of
  /// |G|^2 is not above 0, as where the batch is far below it.
  std::optional<double> value = {};
  /// >= 0. At least 9 of 10 intervals from `low` to `high` hold the truth (19 of 20 without an
  /// upper end).
  double low = 0;
  std::optional<double> high = {};  ///< absent: not bounded
  double variance = 0;              ///< tr(Sigma) per unit of weight, averaged
};

/// The same in another unit, of which one unit of weight is `factor`.
NoiseScale in_units(NoiseScale noise, double factor);

/// Averages over windows, of numerator and denominator each by itself, as the paper does: the
/// newest window counts 1, the one before it `decay`, and so on. Early in a run gradients shrink
/// many times over, and the first windows would outweigh all others; so until that decay is
/// reached, a window weighs about as the square of its number. Plain data, kept in checkpoints.
class NoiseAverage {
 public:
  /// `decay` in (0, 1). As many windows count as (1 + decay) / (1 - decay), by the variance that
  /// their average has.
  explicit NoiseAverage(double decay = 0.98);

  /// An estimate that is not finite, or whose square is not, is left out.
  void add(const NoiseEstimate& estimate);
  std::int64_t windows() const { return state_.windows; }
  /// Nothing before the second window. The spread is Fieller's interval for a ratio (Fieller,
  /// "Some problems in interval estimation", 1954), with the weighted windows' variances and their
  /// covariance and Student's quantile for as many windows as count. It has no upper end where the
  /// average of |G|^2 cannot be told from 0, and neither end (0 and absent) before more than four
  /// windows count: before the seventh, or ever under a decay of 0.6 or less.
  std::optional<NoiseScale> scale() const;
  std::optional<double> variance() const;          ///< tr(Sigma) per unit of weight
  std::optional<double> squared_gradient() const;  ///< |G|^2, as averaged

  /// All that a resume needs: weighted sums over the windows. restored() takes what state() gave,
  /// and throws a usage Error if a value is not finite or none that windows can give.
  struct State {
    std::int64_t windows = 0;
    double decay = 0.98;
    double weight = 0, squared_weight = 0;  ///< of the weights themselves, and of their squares
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
