#include "evaluation.h"

#include <numeric>

#include "accrue/batch/schedule.h"
#include "accrue/core/clock.h"
#include "accrue/core/error.h"

namespace accrue::train {

std::optional<Evaluation> evaluate_source(models::Trainable& model, const data::Source& source,
                                          const EvaluationOptions& options) {
  const std::int64_t samples =
      options.max_samples > 0 ? std::min(options.max_samples, source.size()) : source.size();
  const Stopwatch watch;
  double loss_sum = 0, weight = 0;
  for (const batch::Range range : batch::split({0, samples}, options.micro_batch)) {
    if (options.cancelled && options.cancelled()) return std::nullopt;
    std::vector<std::int64_t> indices(static_cast<std::size_t>(range.size()));
    std::iota(indices.begin(), indices.end(), range.begin);
    const batch::MicroBatch micro = source.fetch(indices);
    const Loss loss =
        models::evaluate(model, micro, {.training = false, .sample_ids = std::move(indices)});
    loss_sum += loss.sum.item<double>();
    weight += loss.weight;
  }
  if (weight == 0) {
    throw usage_error("evaluate", "validation data with labels that count", "none",
                      "other files in data.val");
  }
  return Evaluation{.loss = loss_sum / weight, .weight = weight, .seconds = watch.seconds()};
}

}  // namespace accrue::train
