#include "accrue/accum/accumulate.h"

#include <cmath>

#include "accrue/accum/accumulator.h"
#include "accrue/core/error.h"
#include "support/snapshot.h"

namespace accrue {
namespace {

Loss finite(Loss loss, std::int64_t index) {
  if (loss.sum.defined() && loss.sum.numel() == 1 && !std::isfinite(loss.sum.item<double>()))
    throw usage_error(
        "accumulate", "finite losses",
        std::to_string(loss.sum.item<double>()) + " in micro-batch " + std::to_string(index),
        "an Accumulator, which can leave a micro-batch out");
  return loss;
}

}  // namespace

Accumulated accumulate(const NamedParameters& parameters, const NextLoss& next_loss) {
  const Keep keep{GradSnapshot(parameters)};
  Accumulator accumulator(parameters, {.check_finite = false});
  std::int64_t index = 0;
  while (std::optional<Loss> loss = next_loss()) accumulator.backward(finite(*loss, index++));

  Accumulated result;
  const auto& entries = accumulator.current_window().buffer()->entries();
  result.weight = accumulator.current_window().weight();
  result.loss_sum = accumulator.current_window().ledger().committed_loss_sum();
  const StepReport report =
      accumulator.finish([](accum::MeanGradient&& gradient) { gradient.materialize(); });
  for (const auto& entry : entries) {
    if (!report.stepped) entry.slot->main.zero_();
    result.gradients.push_back({entry.name, entry.slot->main});
  }
  return result;
}

}  // namespace accrue
