#pragma once

#include "accrue/train/config.h"

namespace accrue::train {

/// `config` for the record of a run: where it takes outer steps their rates are stated, since a run
/// keeps them whatever is usual in another build (distributed::usual_outer_rates).
Config with_outer_rates(Config config);

/// The config of a run that is to go on, `recorded` as it began, checked against `given`
/// (check_config_unchanged). One that states no outer rates means those of the run: then both
/// `given` and `used` get them. A record without any is of a build where they were lr 1 and
/// momentum 0.
Config settle_config(Config recorded, Config& given, Config& used);

}  // namespace accrue::train
