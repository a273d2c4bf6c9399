#include "memory/cost_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace accrue::memory {
namespace {

std::vector<Fact> fitting(Recompute mode, const std::vector<Fact>& facts) {
  std::vector<Fact> found;
  for (const Fact& fact : facts)
    if (fact.point.recompute == mode && fact.measured.fits) found.push_back(fact);
  std::ranges::sort(found, {}, [](const Fact& fact) { return fact.point.micro_batch; });
  return found;
}

std::int64_t smallest_failed(Recompute mode, const std::vector<Fact>& facts) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (const Fact& fact : facts)
    if (fact.point.recompute == mode && !fact.measured.fits)
      smallest = std::min(smallest, fact.point.micro_batch);
  return smallest;
}

template <class Value>
PiecewiseLinear through(double at_zero, const std::vector<Fact>& facts, Value value) {
  std::vector<PiecewiseLinear::Point> points{{0, at_zero}};
  for (const Fact& fact : facts)
    points.push_back(
        {static_cast<double>(fact.point.micro_batch), static_cast<double>(value(fact.measured))});
  return PiecewiseLinear(std::move(points));
}

}  // namespace

PiecewiseLinear::PiecewiseLinear(std::vector<Point> points) : points_(std::move(points)) {}

std::size_t PiecewiseLinear::segment_of(double x) const {
  std::size_t segment = 0;
  while (segment + 2 < points_.size() && points_[segment + 1].x <= x) ++segment;
  return segment;
}

double PiecewiseLinear::slope_of(std::size_t segment) const {
  const Point& from = points_[segment];
  const Point& to = points_[segment + 1];
  return (to.y - from.y) / (to.x - from.x);
}

double PiecewiseLinear::slope_at(double x) const { return slope_of(segment_of(x)); }

double PiecewiseLinear::at(double x) const {
  const Point& last = points_.back();
  if (x > last.x) return last.y + (x - last.x) * std::max(0.0, slope_of(points_.size() - 2));
  const std::size_t segment = segment_of(x);
  return points_[segment].y + (x - points_[segment].x) * slope_of(segment);
}

CostModel::CostModel(Recompute mode, const std::vector<Fact>& facts, const Resident& resident)
    : mode_(mode),
      resident_(resident),
      smallest_failed_(smallest_failed(mode, facts)),
      bytes_(through(static_cast<double>(resident.total()), fitting(mode, facts),
                     [](const Measured& measured) { return measured.peak_bytes; })),
      seconds_(through(0, fitting(mode, facts),
                       [](const Measured& measured) { return measured.seconds; })) {
  for (const Fact& fact : fitting(mode, facts)) measured_.push_back(fact.point.micro_batch);
}

std::int64_t CostModel::peak_bytes(std::int64_t micro_batch) const {
  return std::llround(bytes_.at(static_cast<double>(micro_batch)));
}

double CostModel::seconds(std::int64_t micro_batch) const {
  const double size = static_cast<double>(micro_batch);
  const double largest = static_cast<double>(measured_.back());
  const double predicted = seconds_.at(size);
  // The slope is at least half of the mean one: more samples never cost almost nothing.
  const double least = seconds_.at(largest) * (1 + (size - largest) / (2 * largest));
  return size > largest ? std::max(predicted, least) : predicted;
}

double CostModel::window_seconds(std::int64_t window_samples, std::int64_t micro_batch) const {
  const std::int64_t rest = window_samples % micro_batch;
  const auto full = static_cast<double>(window_samples / micro_batch);
  return full * seconds(micro_batch) + (rest > 0 ? seconds(rest) : 0);
}

Breakdown CostModel::breakdown(std::int64_t micro_batch) const {
  const std::int64_t working = peak_bytes(micro_batch) - resident_.total();
  const double growing =
      bytes_.slope_at(static_cast<double>(micro_batch)) * static_cast<double>(micro_batch);
  const std::int64_t activations =
      std::clamp<std::int64_t>(std::llround(growing), 0, std::max<std::int64_t>(0, working));
  return {.parameters = resident_.parameters,
          .gradients = resident_.gradients,
          .optimizer = resident_.optimizer,
          .activations = activations,
          .temporaries = resident_.cuts + working - activations};
}

bool CostModel::was_measured(std::int64_t micro_batch) const {
  return std::ranges::find(measured_, micro_batch) != measured_.end();
}

std::vector<Fact> without_refuted(const std::vector<Fact>& facts) {
  std::vector<Fact> kept;
  std::ranges::copy_if(facts, std::back_inserter(kept), [&](const Fact& fact) {
    return !fact.measured.fits ||
           fact.point.micro_batch < smallest_failed(fact.point.recompute, facts);
  });
  return kept;
}

std::vector<Fact> without_impossible_times(std::vector<Fact> facts) {
  const std::vector<Fact> measured = facts;
  for (Fact& fact : facts)
    for (const Fact& more : measured)
      if (fact.measured.fits && more.measured.fits &&
          more.point.micro_batch >= fact.point.micro_batch &&
          more.point.recompute >= fact.point.recompute)
        fact.measured.seconds = std::min(fact.measured.seconds, more.measured.seconds);
  return facts;
}

std::vector<CostModel> fit_models(const std::vector<Fact>& noisy, const PlanQuestion& question) {
  const std::vector<Fact> facts = without_impossible_times(without_refuted(noisy));
  std::vector<CostModel> models;
  for (const Recompute mode : question.modes)
    if (!fitting(mode, facts).empty()) models.emplace_back(mode, facts, question.resident);
  return models;
}

}  // namespace accrue::memory
