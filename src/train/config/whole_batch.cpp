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

}  // namespace

std::int64_t ranks_that_share(const Config& config, std::int64_t ranks) {
  return config.dist.stages > 1 ? 1 : ranks;
}

Config with_whole_batch(Config config, std::int64_t ranks, const std::string& where) {
  BatchConfig& batch = config.batch;
  if (!batch.micro_batches) return config;
  expect_micro(batch, where);
  const std::int64_t sharing = ranks_that_share(config, ranks);
  // Each factor divides what the others leave, so that no product overflows.
  if (*batch.micro_batches > most::samples / sharing / *batch.micro)
    throw usage_error(where, "a batch of at most " + grouped(most::samples) + " samples",
                      std::to_string(*batch.micro_batches) + " micro-batches of " +
                          std::to_string(*batch.micro) + " samples on each of " +
                          std::to_string(sharing) + (sharing == 1 ? " rank" : " ranks"),
                      "fewer or smaller micro-batches");
  batch.samples = *batch.micro_batches * *batch.micro * sharing;
  batch.micro_batches.reset();
  batch.came_of_micro_batches = true;
  return config;
}

std::string micro_batch_advice(const Config& config, const std::string& value) {
  const std::string micro = "batch.micro = " + value;
  if (!config.batch.came_of_micro_batches) return micro;
  return "batch.samples = " + std::to_string(config.batch.samples.value_or(0)) + " and " + micro +
         " in place of batch.micro_batches";
}

}  // namespace accrue::train
