#include "train/plan/offload_forecast.h"

#include <algorithm>
#include <cmath>

namespace accrue::train {
namespace {

/// The parts of a sample's compute, by products of its parameters and tokens: 2 for the forward
/// pass, and 2 + 4 for the one that runs again and for backward.
constexpr double kForwardShare = 0.25, kBackwardShare = 0.75;

double transfer_seconds(const OffloadedWindow& window, const Traffic& traffic) {
  const auto parameters = static_cast<double>(window.parameters);
  return parameters * traffic.read / window.rates.read +
         parameters * traffic.write / window.rates.write;
}

/// Seconds of a window's passes.
struct Passes {
  double forward = 0, backward = 0;
};

Passes passes_of(const OffloadedWindow& window, double compute_seconds) {
  return {.forward = std::max(kForwardShare * compute_seconds,
                              transfer_seconds(window, window.traffic.forward)),
          .backward = std::max(kBackwardShare * compute_seconds,
                               transfer_seconds(window, window.traffic.backward))};
}

}  // namespace

memory::Measured without_wait(memory::Measured measured) {
  const double compute = std::max(0.0, measured.seconds - measured.waited_seconds);
  if (compute > 0) measured.error *= measured.seconds / compute;  // relative to less
  measured.seconds = compute;
  measured.waited_seconds = 0;
  return measured;
}

std::vector<memory::Fact> without_waits(std::vector<memory::Fact> facts) {
  for (memory::Fact& fact : facts) fact.measured = without_wait(fact.measured);
  return facts;
}

double seconds_of_passes(const OffloadedWindow& window, double compute_seconds) {
  const Passes passes = passes_of(window, compute_seconds);
  return passes.forward + passes.backward;
}

std::optional<double> compute_seconds_of_sample(const std::vector<memory::Fact>& facts,
                                                Recompute recompute) {
  std::vector<memory::Fact> fitting;
  for (const memory::Fact& fact : facts)
    if (fact.measured.fits && fact.point.recompute == recompute) fitting.push_back(fact);
  if (fitting.empty()) return std::nullopt;
  std::ranges::sort(fitting, {}, [](const memory::Fact& fact) { return fact.point.micro_batch; });
  const memory::Fact& largest = fitting.back();
  const double all = largest.measured.seconds / static_cast<double>(largest.point.micro_batch);
  if (fitting.size() == 1) return all;
  const memory::Fact& second = fitting[fitting.size() - 2];
  const auto samples = static_cast<double>(largest.point.micro_batch - second.point.micro_batch);
  if (samples <= 0) return all;
  const double slope = (largest.measured.seconds - second.measured.seconds) / samples;
  return std::clamp(slope, 0.0, all);
}

OffloadForecast forecast_offload(const OffloadedWindow& window) {
  const OffloadTraffic& traffic = window.traffic;
  const Traffic total = traffic.total();
  const auto parameters = static_cast<double>(window.parameters);
  const Passes passes =
      passes_of(window, window.sample_seconds * static_cast<double>(window.samples));
  OffloadForecast forecast{.rates = window.rates,
                           .bytes_read = parameters * total.read,
                           .bytes_written = parameters * total.write,
                           .forward_seconds = passes.forward,
                           .backward_seconds = passes.backward,
                           .step_seconds = transfer_seconds(window, traffic.closing) +
                                           transfer_seconds(window, traffic.step)};
  if (window.sample_seconds > 0) {
    const double hidden = std::max(transfer_seconds(window, traffic.forward) / kForwardShare,
                                   transfer_seconds(window, traffic.backward) / kBackwardShare);
    forecast.hiding_samples = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::ceil(hidden / window.sample_seconds)));
  }
  return forecast;
}

}  // namespace accrue::train
