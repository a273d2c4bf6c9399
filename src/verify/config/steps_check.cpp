#include "verify/config/steps_check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "train/config/gradient_folding.h"
#include "verify/comparison.h"

namespace accrue::proof {
namespace {

constexpr std::uint64_t most_draws = 9;

/// What two runs of steps left, and how far rounding may have brought them apart.
class Steps {
 public:
  Steps(ConfigSubject& subject, const StepsSplit& split)
      : subject_(subject),
        split_(split),
        coarse_(subject.after_steps(split.coarse)),
        noise_(coarse_.size(), 0.0) {
    const std::vector<at::Tensor> fine = subject.after_steps(split.fine, {}, split.fine_by);
    for (std::size_t i = 0; i < coarse_.size(); ++i) {
      moved_.push_back(l2_norm(coarse_[i] - subject.parameters()[i].tensor.detach()));
      error_.push_back(l2_norm(coarse_[i] - fine[i]));
    }
  }

  void draw(std::uint64_t seed) {
    const KeepParameters keep(subject_.parameters());
    perturb(subject_.parameters(), seed);
    const std::vector<at::Tensor> perturbed =
        subject_.after_steps(split_.coarse, {.weighting = drawn_scale(seed)});
    for (std::size_t i = 0; i < noise_.size(); ++i)
      noise_[i] = std::max(noise_[i], l2_norm(coarse_[i] - perturbed[i]));
  }

  StepsResult judged() const {
    StepsResult result{.steps = static_cast<std::int64_t>(split_.coarse.size()),
                       .splits = split_.name};
    double worst = -1, bounds = 0, movement = 0;
    for (std::size_t i = 0; i < error_.size(); ++i) {
      const double bound = bound_of(i);
      bounds += bound * bound;
      movement += moved_[i] * moved_[i];
      const double scale = moved_[i] > 0 ? moved_[i] : 1;
      if (error_[i] / scale > result.largest_error || i == 0) {
        result.largest_error = error_[i] / scale;
        result.largest_bound = bound / scale;
      }
      const double ratio = bound > 0 ? error_[i] / bound : error_[i] > 0 ? INFINITY : 0;
      if (!(ratio > worst) && !std::isnan(ratio)) continue;
      worst = ratio;
      result.parameter = subject_.parameters()[i].name;
      result.relative_error = error_[i] / scale;
      result.bound = bound / scale;
      result.equal = ratio <= 1;
    }
    result.joint_bound = movement > 0 ? std::sqrt(bounds / movement) : 0;
    result.conclusive = result.joint_bound <= most_conclusive_bound;
    return result;
  }

 private:
  double bound_of(std::size_t i) const {
    const double roundoff = unit_roundoff(coarse_[i].scalar_type());
    const double steps = static_cast<double>(split_.coarse.size());
    return 8 * noise_[i] + 8 * steps * roundoff * l2_norm(coarse_[i]);
  }

  ConfigSubject& subject_;
  const StepsSplit& split_;
  std::vector<at::Tensor> coarse_;
  std::vector<double> noise_, moved_, error_;
};

}  // namespace

StepsSplit split_steps(const train::Workload& work, std::int64_t steps, std::int64_t samples) {
  const batch::WindowSchedule& schedule = work.schedule;
  const std::int64_t coarse = (samples + 1) / 2, fine = std::max<std::int64_t>(1, samples / 4);
  StepsSplit split{.name = "micro-batches of " + std::to_string(coarse) + " against " +
                           std::to_string(fine)};
  if (train::folds_gradients(work.config)) {
    split.name += ", folded";
    split.fine_by = StepsBy::folding;
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    const batch::Range all = schedule.window(step);
    const batch::Range range{all.begin, std::min(all.end, all.begin + samples)};
    split.coarse.push_back(batch::split(range, coarse));
    split.fine.push_back(batch::split(range, fine));
  }
  return split;
}

StepsResult compare_steps(ConfigSubject& subject, const StepsSplit& split) {
  Steps steps(subject, split);
  steps.draw(1);
  StepsResult result = steps.judged();
  for (std::uint64_t seed = 2; !result.equal && seed <= most_draws; ++seed) {
    steps.draw(seed);
    result = steps.judged();
  }
  return result;
}

}  // namespace accrue::proof
