#include "train/run/recorded_config.h"

#include <utility>

#include "train/checkpoint/resume.h"
#include "train/ranks/outer_settings.h"

namespace accrue::train {

Config with_outer_rates(Config config) {
  if (!config.dist.takes_outer_steps()) return config;
  const distributed::OuterOptions outer = outer_settings(config.dist);
  config.dist.outer_lr = outer.lr;
  config.dist.outer_momentum = outer.momentum;
  return config;
}

Config settle_config(Config recorded, Config& given, Config& used) {
  if (recorded.dist.takes_outer_steps()) {
    recorded.dist.outer_lr = recorded.dist.outer_lr.value_or(1);
    recorded.dist.outer_momentum = recorded.dist.outer_momentum.value_or(0);
  }
  for (Config* config : {&given, &used}) {
    if (!has_usual_outer_rates(config->dist)) continue;
    config->dist.outer_lr = recorded.dist.outer_lr;
    config->dist.outer_momentum = recorded.dist.outer_momentum;
  }
  check_config_unchanged(recorded, with_outer_rates(given));
  return recorded;
}

}  // namespace accrue::train
