#include "train/config/batch_checks.h"

#include <string>

#include "accrue/core/error.h"
#include "train/config/accumulation_order.h"
#include "train/config/gradient_folding.h"
#include "train/config/toml/value.h"

namespace accrue::train {
namespace {

std::optional<std::int64_t>& size_of(BatchConfig& batch, BatchUnit unit) {
  if (unit == BatchUnit::tokens) return batch.tokens;
  return unit == BatchUnit::samples ? batch.samples : batch.micro_batches;
}

std::int64_t stated_size(const BatchConfig& batch) {
  if (batch.tokens) return *batch.tokens;
  return batch.samples ? *batch.samples : batch.micro_batches.value_or(0);
}

std::string key_of(BatchUnit unit) { return "batch." + std::string(batch_unit_words.of(unit)); }

std::string in_words(BatchUnit unit, std::int64_t size) {
  return key_of(unit) + " = " + std::to_string(size);
}

bool begins_at_zero(const BatchConfig& batch) {
  return !batch.schedule.empty() && batch.schedule.front().at.value == 0;
}

void check_schedule_of_batch(const BatchConfig& batch, const StatedKeys& stated) {
  if (batch.schedule.empty()) return;
  const std::string operation = where(stated, "batch.schedule");
  if (batch.schedule_unit != batch.unit())
    throw usage_error(
        operation, "batches in the unit of " + key_of(batch.unit()),
        std::string(batch_unit_words.of(batch.schedule_unit)),
        "one unit for both, or no " + key_of(batch.unit()) + " beside a schedule that begins at 0");
  const std::int64_t first = batch.schedule.front().size;
  if (begins_at_zero(batch) && first != stated_size(batch))
    throw usage_error(operation, "one batch for the first step",
                      in_words(batch.unit(), first) + " at 0, beside " +
                          in_words(batch.unit(), stated_size(batch)),
                      "leaving out " + key_of(batch.unit()));
  if (batch.ramp_from)
    throw usage_error(operation, "batch.schedule or batch.ramp", "both", "removing one of them");
}

void check_ramp(const BatchConfig& batch, const StatedKeys& stated) {
  if (!batch.ramp_from) return;
  if (!batch.ramp_over)
    throw usage_error(where(stated, "batch.ramp.from"), "batch.ramp.over beside it", "none",
                      "for example batch.ramp.over = \"10%\"");
  if (*batch.ramp_from >= stated_size(batch))
    throw usage_error(where(stated, "batch.ramp.from"),
                      "less than the batch it grows to, " + std::to_string(stated_size(batch)) +
                          " " + std::string(batch_unit_words.of(batch.unit())),
                      std::to_string(*batch.ramp_from), "a smaller one");
}

void check_bounds(const Config& config, const StatedKeys& stated) {
  const std::int64_t size = stated_size(config.batch);
  const auto refuse = [&](const char* key, const char* expected, std::int64_t received) {
    throw usage_error(where(stated, key),
                      expected + std::to_string(size) + " " +
                          std::string(batch_unit_words.of(config.batch.unit())) +
                          ", with which the run begins",
                      std::to_string(received), "bounds with the batch between them");
  };
  if (config.adapt.min && *config.adapt.min > size)
    refuse("adapt.min", "at most the batch of ", *config.adapt.min);
  if (config.adapt.max && *config.adapt.max < size)
    refuse("adapt.max", "at least the batch of ", *config.adapt.max);
}

/// The setting that leaves no sum of a micro-batch whose norm one rank could take.
std::string what_hides_noise(const Config& config) {
  if (folds_gradients(config)) return "gradients that go into the optimizer's state";
  if (config.dist.stages > 1) return "a pipeline, whose stages hold a part of the model each";
  if (config.dist.compress != distributed::Compression::none)
    return "dist.compress, by which the sums of all ranks are not those of their parts";
  if (const std::optional<LayeredKey> order = layered_key(config))
    return order->statement() + ", which runs all micro-batches together";
  return {};
}

void check_adapt(const Config& config, const StatedKeys& stated) {
  if (!config.adapt.is_on()) return;
  const std::string operation = where(stated, "adapt.batch");
  if (config.batch.changes_as_stated())
    throw usage_error(operation, "one thing that changes the batch",
                      config.batch.ramp_from ? "batch.ramp beside it" : "batch.schedule beside it",
                      "removing one of them");
  check_bounds(config, stated);
  if (config.dist.takes_outer_steps())
    throw usage_error(operation, "ranks that take each step together",
                      "ranks that step alone (dist.local_steps)", "batch.schedule");
  if (config.adapt.batch == adapt::BatchRule::seesaw &&
      config.optim.schedule.kind == optim::ScheduleKind::constant)
    throw usage_error(operation, "a learning rate that falls, as seesaw goes by its halvings",
                      "optim.schedule.kind = \"constant\"", "\"cosine\" or \"linear\"");
  if (!adapt::measures_noise(config.adapt.batch)) return;
  const std::string hidden = what_hides_noise(config);
  if (!hidden.empty())
    throw usage_error(operation,
                      "gradients whose noise can be measured, micro-batch by micro-batch", hidden,
                      "batch.schedule, or adapt.batch = \"seesaw\", which measures nothing");
}

}  // namespace

bool is_batch_size(const std::string& key) {
  return key == "batch.tokens" || key == "batch.samples";
}

void take_batch_of_schedule(Config& config, StatedKeys& stated) {
  BatchConfig& batch = config.batch;
  if (!begins_at_zero(batch) || batch.tokens || batch.samples || batch.micro_batches) return;
  size_of(batch, batch.schedule_unit) = batch.schedule.front().size;
  stated[key_of(batch.schedule_unit)] = where(stated, "batch.schedule");
}

void check_batch_changes(const Config& config, const StatedKeys& stated) {
  check_schedule_of_batch(config.batch, stated);
  check_ramp(config.batch, stated);
  check_adapt(config, stated);
}

}  // namespace accrue::train
