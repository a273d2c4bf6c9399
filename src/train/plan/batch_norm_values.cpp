#include "train/plan/batch_norm_values.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/models/batch_norm.h"
#include "accrue/models/normalisation.h"
#include "core/words.h"
#include "data/fetch.h"
#include "support/snapshot.h"
#include "train/workload/batch_changes.h"

namespace accrue::train {
namespace {

/// Whether running statistics have become NaN. accrue's own layers produce one from a single value;
/// PyTorch's throw.
bool holds_nan(const NamedParameters& buffers) {
  return std::ranges::any_of(buffers, [](const NamedParameter& buffer) {
    return buffer.tensor.defined() && at::isFloatingType(buffer.tensor.scalar_type()) &&
           at::isnan(buffer.tensor).any().item<bool>();
  });
}

/// The windows whose last micro-batch may be short: a full one, and an epoch's last.
std::vector<std::int64_t> windows_that_differ(const Workload& work) {
  const std::int64_t total = total_windows(work.config, work.schedule);
  const std::int64_t last = work.schedule.windows_in_epoch(0) - 1;
  std::vector<std::int64_t> windows{0};
  if (last > 0 && last < total) windows.push_back(last);
  return windows;
}

}  // namespace

std::int64_t least_micro_batch(const Workload& work) {
  if (work.config.model.batchnorm != models::BatchNormPolicy::micro) return 1;
  if (models::find_batch_norms(*work.model).none()) return 1;
  const batch::MicroBatch sample = data::fetch_one(*work.data.train);
  const at::NoGradGuard no_grad;
  const TensorSnapshot before(work.model->buffers());
  const bool held_nan = holds_nan(work.model->buffers());
  std::int64_t least = 1;
  try {
    models::run_segments(*work.model, sample,
                         batch::training_context(sample, work.config.run.seed, 0));
    if (!held_nan && holds_nan(work.model->buffers())) least = 2;
  } catch (const std::exception& error) {
    // Any other problem with it appears when it is run in training.
    if (std::string_view(error.what()).find(models::one_value_per_channel) !=
        std::string_view::npos)
      least = 2;
  }
  before.restore();
  return least;
}

namespace {

[[noreturn]] void refuse(const std::string& received) {
  throw usage_error(
      "model.batchnorm = \"micro\"",
      "at least 2 samples in each micro-batch, since one sample leaves a batch normalisation one "
      "value for each channel, which has no variance",
      received, "another batch.micro or batch.samples, or batch.last = \"drop\"");
}

}  // namespace

bool expect_values_for_batch_norm(const Workload& work,
                                  const std::vector<batch::Range>& micro_batches,
                                  std::int64_t step) {
  const auto has_one = [](const batch::Range& micro_batch) { return micro_batch.size() == 1; };
  if (std::ranges::none_of(micro_batches, has_one)) return false;
  if (least_micro_batch(work) > 1) refuse("one of 1 sample in step " + std::to_string(step));
  return true;
}

void expect_values_for_batch_norm(const Workload& work, std::int64_t micro_batch) {
  if (batch_changes(work.config) || work.ranks > 1) return;
  for (const std::int64_t window : windows_that_differ(work)) {
    const std::int64_t samples = work.schedule.window(window).size();
    if (micro_batch != 1 && samples % micro_batch != 1) continue;
    if (least_micro_batch(work) == 1) return;
    refuse("one of 1 sample in step " + std::to_string(window + 1) + ", of " +
           counted(samples, "sample") + " in micro-batches of " + std::to_string(micro_batch));
  }
}

}  // namespace accrue::train
