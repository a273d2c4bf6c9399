#include "accrue/core/error.h"
#include "accrue/train/config.h"
#include "train/config/key_builders.h"

namespace accrue::train {
namespace {

void expect_micro(const BatchConfig& batch, const std::string& where) {
  if (batch.micro) return;
  throw usage_error(where, "batch.micro, the samples of a micro-batch, as the two make the batch",
                    "\"auto\", which only a batch in samples or tokens leaves to the memory",
                    "batch.micro = 4 beside it, or batch.samples in its place");
}

std::int64_t samples_of_micro_batches(std::int64_t count, std::int64_t micro, std::int64_t ranks,
                                      const std::string& where) {
  // Each factor divides what the others leave, so that no product overflows.
  if (count <= most::samples / ranks / micro) return count * micro * ranks;
  throw usage_error(where, "a batch of at most " + grouped(most::samples) + " samples",
                    std::to_string(count) + " micro-batches of " + std::to_string(micro) +
                        " samples on each of " + std::to_string(ranks) +
                        (ranks == 1 ? " rank" : " ranks"),
                    "fewer or smaller micro-batches");
}

}  // namespace

BatchUnit BatchConfig::unit() const {
  if (tokens) return BatchUnit::tokens;
  return samples ? BatchUnit::samples : BatchUnit::micro_batches;
}

std::int64_t ranks_that_share(const Config& config, std::int64_t ranks) {
  return config.dist.stages > 1 ? 1 : ranks;
}

Config with_whole_batch(Config config, std::int64_t ranks, const std::string& where) {
  BatchConfig& batch = config.batch;
  if (!batch.micro_batches) return config;
  expect_micro(batch, where);
  const auto samples_of = [&, sharing = ranks_that_share(config, ranks)](std::int64_t count) {
    return samples_of_micro_batches(count, *batch.micro, sharing, where);
  };
  batch.samples = samples_of(*batch.micro_batches);
  batch.micro_batches.reset();
  batch.came_of_micro_batches = true;
  for (BatchStage& stage : batch.schedule) stage.size = samples_of(stage.size);
  batch.schedule_unit = BatchUnit::samples;
  for (std::optional<std::int64_t>* size : {&batch.ramp_from, &config.adapt.min, &config.adapt.max})
    if (*size) *size = samples_of(**size);
  return config;
}

std::string micro_batch_advice(const Config& config, const std::string& value) {
  const std::string micro = "batch.micro = " + value;
  if (!config.batch.came_of_micro_batches) return micro;
  return "batch.samples = " + std::to_string(config.batch.samples.value_or(0)) + " and " + micro +
         " in place of batch.micro_batches";
}

}  // namespace accrue::train
