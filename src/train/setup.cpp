#include "setup.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include "machine.h"

namespace accrue::train {

void use_threads(std::int64_t threads) {
  const auto count = static_cast<int>(threads > 0 ? threads : granted_threads());
  at::set_num_threads(count);
  omp_set_num_threads(count);
}

MicroDecision choose_micro_batch(const Config& config, const Datasets& data, models::Gpt2& model) {
  const std::int64_t window = samples_per_window(config);
  if (config.batch.micro) return {std::min(*config.batch.micro, window), "as batch.micro says"};
  const std::vector<std::int64_t> first{0};
  batch::MicroBatch sample = data.train->fetch(first);
  sample.sample_ids = first;
  return decide_micro_batch(
      measure_micro_batch(model, sample, std::min(window, data.train->size())));
}

}  // namespace accrue::train
