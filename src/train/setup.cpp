#include "accrue/train/setup.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include "accrue/data/fetch.h"
#include "kept_buffers.h"
#include "machine.h"
#include "micro_batch_size.h"

namespace accrue::train {

void use_threads(std::int64_t threads) {
  const auto count = static_cast<int>(threads > 0 ? threads : granted_threads());
  at::set_num_threads(count);
  omp_set_num_threads(count);
}

namespace {

/// The sample that takes the most memory: micro-batches are padded to it.
std::int64_t longest_sample(const data::Source& source) {
  if (source.uniform_tokens()) return 0;
  std::int64_t longest = 0;
  for (std::int64_t i = 1; i < source.size(); ++i)
    if (source.tokens(i) > source.tokens(longest)) longest = i;
  return longest;
}

}  // namespace

MicroDecision choose_micro_batch(const Workload& work) {
  const std::int64_t window = work.schedule.samples_per_window;
  const std::optional<std::int64_t> stated = work.config.batch.micro;
  if (stated) return {std::min(*stated, window), "as batch.micro says"};
  const std::vector<std::int64_t> longest{longest_sample(*work.data.train)};
  const batch::MicroBatch sample = data::fetch_as(*work.data.train, longest, longest);
  const KeptBuffers buffers(*work.model);
  const MicroTrial trial =
      measure_micro_batch(*work.model, make_gradient_buffer(work.config, work.model->parameters()),
                          sample, std::min(window, work.data.train->size()));
  buffers.restore();
  return decide_micro_batch(trial);
}

}  // namespace accrue::train
