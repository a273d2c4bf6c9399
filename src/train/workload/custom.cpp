#include "accrue/train/custom.h"

#include "accrue/core/error.h"
#include "accrue/train/config.h"

namespace accrue::train {

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
