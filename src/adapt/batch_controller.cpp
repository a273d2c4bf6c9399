#include "accrue/adapt/batch_controller.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>

#include "core/words.h"

namespace accrue::adapt {
namespace {

constexpr double largest_step = 2;  ///< the factor by which a batch changes at once, up or down
constexpr double least_growth = 1.25, least_shrinkage = 0.8;

/// The batches that a rule may choose: whole multiples of the quantum, from `least` to `most`.
class AllowedBatches {
 public:
  explicit AllowedBatches(const BatchBounds& bounds)
      : quantum_(bounds.quantum),
        most_(std::max(quantum_, std::floor(bounds.most / quantum_ * (1 + rounding)) * quantum_)),
        least_(std::min(most_, std::max(quantum_, not_below(bounds.least)))),
        one_pass_(bounds.one_pass) {}

  double quantum() const { return quantum_; }
  double least() const { return least_; }
  double most() const { return most_; }
  double one_pass() const { return one_pass_; }

  /// The allowed batch that is nearest to `batch`; the larger one if there are two.
  double nearest(double batch) const {
    return std::clamp(std::round(batch / quantum_) * quantum_, least_, most_);
  }
  /// The smallest whole multiple that is not below `batch`, allowed or not.
  double not_below(double batch) const {
    return std::ceil(batch / quantum_ * (1 - rounding)) * quantum_;
  }

 private:
  /// Lets a whole multiple of a quantum that is not an integer count as one.
  static constexpr double rounding = 1e-12;

  double quantum_, most_, least_, one_pass_;
};

/// 52300.4 -> "52,300", 3.71 -> "3.71".
std::string number(double value) {
  constexpr double least_whole = 100, most_whole = 1e15;
  if (value >= least_whole && value < most_whole) return digit_groups(std::llround(value));
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

/// The decision for `batch`, with a reason if that is not the current batch.
BatchDecision decided(const BatchFacts& facts, double batch, const std::string& why) {
  if (batch == facts.batch) return {.batch = batch};
  return {.batch = batch,
          .reason = "batch " + number(facts.batch) + " -> " + number(batch) + ": " + why};
}

BatchDecision brought_inside(const AllowedBatches& allowed, const BatchFacts& facts) {
  return decided(facts, allowed.nearest(facts.batch),
                 "batches are whole multiples of " + number(allowed.quantum()) + " from " +
                     number(allowed.least()) + " to " + number(allowed.most()));
}

/// The noise scale; unbounded if the gradient cannot be distinguished from 0.
double measured_scale(const NoiseScale& noise) {
  return noise.value.value_or(std::numeric_limits<double>::infinity());
}

double batch_at_noise_scale(const NoiseScale& noise, double batch) {
  const double scale = measured_scale(noise);
  if (noise.low > batch && scale >= least_growth * batch)
    return std::min(scale, largest_step * batch);
  if (noise.high && *noise.high < batch && scale <= least_shrinkage * batch)
    return std::max(scale, batch / largest_step);
  return batch;
}

double batch_that_passes_norm_test(const AllowedBatches& allowed, const NoiseScale& noise,
                                   double batch) {
  if (!(noise.low > batch)) return batch;
  const double enough = allowed.not_below(measured_scale(noise));
  return std::min(enough, largest_step * batch);
}

double batch_up_to_critical(const NoiseScale& noise, double batch) {
  return noise.low >= largest_step * batch ? largest_step * batch : batch;
}

double batch_by_noise(BatchRule rule, const AllowedBatches& allowed, const NoiseScale& noise,
                      double batch) {
  switch (rule) {
    case BatchRule::noise_scale:
      return batch_at_noise_scale(noise, batch);
    case BatchRule::norm_test:
      return batch_that_passes_norm_test(allowed, noise, batch);
    case BatchRule::critical:
      return batch_up_to_critical(noise, batch);
    case BatchRule::fixed:
    case BatchRule::seesaw:
      break;
  }
  return batch;
}

/// "the noise scale is 52,300 (41,000 to 70,000)".
std::string text_of(const NoiseScale& noise) {
  if (!noise.value)
    return "the noise scale is at least " + number(noise.low) +
           ", as the gradient cannot be told from 0";
  const std::string spread = noise.high ? number(noise.low) + " to " + number(*noise.high)
                                        : "at least " + number(noise.low);
  return "the noise scale is " + number(*noise.value) + " (" + spread + ")";
}

/// The limit that kept the batch from reaching `scale`; empty if there was none.
std::string text_of_limit(const AllowedBatches& allowed, double before, double after,
                          double scale) {
  if (scale <= allowed.one_pass() && after <= allowed.one_pass() && before > allowed.one_pass())
    return "; one pass takes all of it (K = 1), so accumulation cannot pay";
  if (scale < after && after == allowed.least())
    return "; it is to be at least " + number(allowed.least());
  if (scale > after && after == allowed.most())
    return "; it is to be at most " + number(allowed.most());
  if ((scale > after && after == largest_step * before) ||
      (scale < after && before == largest_step * after))
    return "; one change is by a factor of 2 at most";
  return "";
}

BatchDecision by_noise(BatchRule rule, const AllowedBatches& allowed, const BatchFacts& facts) {
  const bool is_measured =
      facts.noise && static_cast<double>(facts.windows_measured) >= facts.windows_wanted;
  if (!is_measured) return {.batch = facts.batch};
  const double batch = allowed.nearest(batch_by_noise(rule, allowed, *facts.noise, facts.batch));
  return decided(facts, batch,
                 text_of(*facts.noise) +
                     text_of_limit(allowed, facts.batch, batch, measured_scale(*facts.noise)));
}

/// How often a rate of 1 was halved on its way to `rate_left`: floor(log2(1 / rate_left)), computed
/// by halving, since ranks must not differ by a library's logarithm.
int halvings_until(double rate_left) {
  constexpr int most = 60;
  constexpr double rounding = 1 + 1e-9;
  int halvings = 0;
  for (double next = 0.5; halvings < most && rate_left <= next * rounding; next /= 2) ++halvings;
  return halvings;
}

/// 2^(-doublings / 2) * 2^-halvings, by operations that round identically on all machines.
double rate_after(int doublings, int halvings) {
  const double odd = doublings % 2 == 0 ? 1 : 1 / std::numbers::sqrt2;
  return std::ldexp(odd, -(doublings / 2) - halvings);
}

BatchDecision by_halvings(const AllowedBatches& allowed, const BatchFacts& facts) {
  const int halvings = halvings_until(*facts.rate_left);
  double batch = allowed.nearest(facts.base_batch);
  int doublings = 0;
  for (; doublings < halvings && 2 * batch <= allowed.most(); ++doublings) batch *= 2;
  BatchDecision decision =
      decided(facts, batch,
              "the schedule has halved the learning rate " + counted(halvings, "time") +
                  (doublings < halvings ? "; it is to be at most " + number(allowed.most()) : ""));
  decision.rate_left = rate_after(doublings, halvings - doublings);
  return decision;
}

BatchDecision by_schedule(const AllowedBatches& allowed, const BatchFacts& facts) {
  if (!facts.rate_left)
    return decided(facts, allowed.nearest(facts.base_batch), "the learning rate warms up");
  if (*facts.rate_left > 0) return by_halvings(allowed, facts);
  // A rate of 0, the end of a cosine, has no number of halvings: the stage before it is kept.
  BatchDecision decision = brought_inside(allowed, facts);
  decision.rate_left = 0;
  return decision;
}

/// arXiv:2007.05105: the progress of a step of `ratio` base batches, in steps of one base batch.
double adascale_gain(double ratio, double noise_in_base_batches) {
  return (noise_in_base_batches + 1) / (noise_in_base_batches / ratio + 1);
}

}  // namespace

bool measures_noise(BatchRule rule) {
  return rule == BatchRule::noise_scale || rule == BatchRule::norm_test ||
         rule == BatchRule::critical;
}

BatchDecision decide_batch(BatchRule rule, const BatchBounds& bounds, const BatchFacts& facts) {
  if (rule == BatchRule::fixed) return {.batch = facts.batch};
  const AllowedBatches allowed(bounds);
  if (rule == BatchRule::seesaw) return by_schedule(allowed, facts);
  if (allowed.nearest(facts.batch) != facts.batch) return brought_inside(allowed, facts);
  return by_noise(rule, allowed, facts);
}

double rate_factor(RateRule rule, double batch, double base_batch,
                   const std::optional<NoiseScale>& noise) {
  const double ratio = batch / base_batch;
  switch (rule) {
    case RateRule::none:
      return 1;
    case RateRule::linear:
      return ratio;
    case RateRule::sqrt:
      return std::sqrt(ratio);
    case RateRule::adascale:
      if (!noise) return 1;
      return noise->value ? adascale_gain(ratio, std::max(0.0, *noise->value) / base_batch) : ratio;
  }
  return 1;
}

double beta2_at(double beta2, RateRule rule, double batch, double base_batch) {
  return rule == RateRule::none ? beta2 : std::pow(beta2, batch / base_batch);
}

}  // namespace accrue::adapt
