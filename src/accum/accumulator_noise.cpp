#include <numeric>

#include "accrue/core/error.h"
#include "accum/accumulator_ranks.h"
#include "accum/batch_size.h"
#include "accum/gradient_norms.h"
#include "accum/single_thread_guard.h"

namespace accrue {

void Accumulator::set_batch(BatchSize batch) {
  const accum::SingleThreadGuard::Call call(*thread_, "set_batch");
  if (window_.is_open())
    throw usage_error("set_batch", "no open window", "one with micro-batches pending",
                      "step() or finish() before it");
  const bool is_in_unit = is_stated(batch) && batch.index() == options_.batch.index();
  if (!is_in_unit || !is_batch(count_of(batch)))
    throw usage_error(
        "set_batch",
        "a batch of at least 1 and at most 2^53 in the unit of AccumulatorOptions::batch",
        is_stated(batch) ? std::to_string(count_of(batch)) + (is_in_unit ? "" : " in another unit")
                         : "none",
        "the unit that the accumulator was made with");
  options_.batch = batch;
}

/// The sums after the first micro-batch are its gradient, unless those of other ranks are already
/// being added to them.
void Accumulator::see_part(double weight, bool is_last) {
  if (!options_.measure_noise || counters_.losses || !(weight > 0)) return;
  if (window_.is_lost() || window_.ledger().entries.size() != 1) return;
  if (ranks_ && is_last && options_.sharing.overlap) return;
  const std::vector<double> squares = accum::squared_norms(*window_.buffer());
  const double square = std::accumulate(squares.begin(), squares.end(), 0.0);
  counters_.noise_part = {.part_squared_norm = square / (weight * weight),
                          .part_inverse_weight = 1 / weight};
}

void Accumulator::read_noise(accum::MeanGradient& gradient, StepReport& report) {
  if (!options_.measure_noise) return;
  adapt::NoiseAverage average = adapt::NoiseAverage::restored(counters_.noise);
  auto sample = ranks_ ? ranks_->noise_part() : counters_.noise_part;
  if (sample && report.quarantined == 0) {
    const double norm = gradient.norm();
    sample->weight = gradient.weight();
    sample->squared_norm = norm * norm;
    if (const auto estimate = adapt::estimate_noise(*sample)) average.add(*estimate);
    counters_.noise = average.state();
  }
  const std::optional<adapt::NoiseScale> noise = average.scale();
  if (!noise) return;
  report.noise_scale = noise->value;
  report.noise_scale_low = noise->low;
  report.noise_scale_high = noise->high;
  report.gradient_variance = noise->variance;
}

}  // namespace accrue
