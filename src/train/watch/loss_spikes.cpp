#include "train/watch/loss_spikes.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/digits.h"
#include "core/median.h"

namespace accrue::train {
namespace {

/// A normal distribution's standard deviation, in median distances from its median.
constexpr double deviations_of_a_distance = 1.4826;
constexpr double deviations_of_a_spike = 6;
constexpr double least_part_of_a_spike = 0.1;

std::vector<double> losses_of(const std::deque<WatchedLoss>& steps) {
  std::vector<double> losses;
  for (const WatchedLoss& step : steps) losses.push_back(step.loss);
  return losses;
}

std::vector<double> norms_of(const std::deque<WatchedLoss>& steps) {
  std::vector<double> norms;
  for (const WatchedLoss& step : steps)
    if (step.grad_norm) norms.push_back(*step.grad_norm);
  return norms;
}

/// The usual distance of values from `median`: a standard deviation that outliers do not move.
double spread_about(double median, std::vector<double> values) {
  for (double& value : values) value = std::abs(value - median);
  return deviations_of_a_distance * median_of(std::move(values));
}

}  // namespace

std::optional<Event> LossSpikes::observe(const WatchedLoss& step) {
  forget_from(step.step);
  std::optional<Event> told;
  if (pending_)
    told = {.name = "loss_spike", .reason = judge(*pending_, step.loss), .step = pending_->at.step};
  pending_ = spike_at(step);
  seen_.push_back(step);
  if (seen_.size() > most_steps) seen_.pop_front();
  return told;
}

void LossSpikes::forget_from(std::int64_t step) {
  while (!seen_.empty() && seen_.back().step >= step) seen_.pop_back();
  if (pending_ && pending_->at.step >= step) pending_.reset();
}

std::optional<LossSpikes::Spike> LossSpikes::spike_at(const WatchedLoss& step) {
  if (seen_.size() < fewest_steps) return std::nullopt;
  const std::vector<double> losses = losses_of(seen_);
  const double usual = median_of(losses);
  const double height = std::max(deviations_of_a_spike * spread_about(usual, losses),
                                 least_part_of_a_spike * std::abs(usual));
  if (height <= 0 || !alarm_.rings((step.loss - usual) / height)) return std::nullopt;
  Spike spike{.at = step, .before = seen_.back(), .usual = usual, .high = usual + height / 2};
  if (std::vector<double> norms = norms_of(seen_); !norms.empty())
    spike.usual_norm = median_of(std::move(norms));
  return spike;
}

std::string LossSpikes::judge(const Spike& spike, double next_loss) const {
  const std::string what = "the loss was " + in_four_digits(spike.at.loss) +
                           ", where the steps before had about " + in_four_digits(spike.usual) +
                           ", and the next step had " + in_four_digits(next_loss);
  const std::string samples = samples_of(spike.at.draws);
  if (next_loss < spike.high) return what + ": its samples are suspected, " + samples;
  return what + " with other samples: " + updates_before(spike) + "; the step's own were " +
         samples;
}

std::string LossSpikes::updates_before(const Spike& spike) {
  std::string text = "the updates before are suspected (lr " + in_four_digits(spike.before.lr);
  if (spike.before.grad_norm && spike.usual_norm)
    text += ", the last one by a gradient of norm " + in_four_digits(*spike.before.grad_norm) +
            " where " + in_four_digits(*spike.usual_norm) + " is usual";
  return text + "); try a lower optim.lr, a longer warm-up or a lower optim.clip";
}

/// The window's draws, and the first of the samples of the data that they took.
std::string LossSpikes::samples_of(batch::Range draws) const {
  constexpr std::int64_t most = 64;
  std::string text;
  for (std::int64_t draw = draws.begin; draw < std::min(draws.end, draws.begin + most); ++draw)
    text += (text.empty() ? "" : ", ") + std::to_string(sampler_.sample(draw));
  if (draws.size() > most) text += ", ... (" + std::to_string(draws.size()) + " in all)";
  return "draws " + std::to_string(draws.begin) + " to " + std::to_string(draws.end - 1) +
         "; in the data: samples " + text;
}

}  // namespace accrue::train
