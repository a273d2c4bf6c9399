#pragma once

#include "accrue/train/config.h"

namespace accrue::train {

/// `config` for the record of a run: if it takes outer steps their rates are stated, since a run
/// keeps them even if another build has other defaults (distributed::usual_outer_rates).
Config with_outer_rates(Config config);

/// The config of a run that is to continue: `recorded`, from its beginning, checked against `given`
/// (check_config_unchanged). A `given` config that states no outer rates means those of the run:
/// then both `given` and `used` get them. A record without any comes from a build in which they
/// were lr 1 and momentum 0.
Config settle_config(Config recorded, Config& given, Config& used);

}  // namespace accrue::train
