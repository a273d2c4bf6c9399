#include "accrue/train/custom.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "accrue/core/error.h"
#include "accrue/train/config.h"
#include "core/cause.h"

namespace accrue::train {

bool detail::is_in_double(const NamedParameters& parameters) {
  return std::ranges::any_of(parameters, [](const NamedParameter& parameter) {
    return parameter.tensor.scalar_type() == at::kDouble;
  });
}

void detail::run_unconverted(const std::function<void()>& loss) {
  try {
    loss();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    throw usage_error("run loss_fn with a model in fp64",
                      "batch_in_double(const Batch&) beside the batch type", cause_of(error),
                      "an overload that returns the batch with its floating-point tensors as fp64");
  }
}

Config with_custom(Config config, Custom custom) {
  config.model.kind = ModelKind::custom;
  config.model.kind_is_auto = false;
  config.custom = std::make_shared<const Custom>(std::move(custom));
  return config;
}

std::function<std::unique_ptr<models::Trainable>(const Config& config)> once(
    std::unique_ptr<models::Trainable> model) {
  const auto kept = std::make_shared<std::unique_ptr<models::Trainable>>(std::move(model));
  return [kept](const Config&) {
    if (*kept) return std::move(*kept);
    throw usage_error("train a model of the program's own", "one run of the model that was given",
                      "a second one that wants a copy of it",
                      "accrue::train::Custom with a function that makes the model");
  };
}

}  // namespace accrue::train
