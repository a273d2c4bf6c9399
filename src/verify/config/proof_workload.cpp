#include "verify/config/proof_workload.h"

#include <utility>

#include "accrue/models/normalisation.h"
#include "train/plan/acceleration.h"
#include "train/plan/setup.h"
#include "train/workload/pair_reference.h"

namespace accrue::proof {

std::int64_t ranks_of(const train::Config& config, const VerifyConfigOptions& options) {
  return options.ranks > 0 ? options.ranks : config.dist.stages;
}

train::Workload open_for_proof(train::Config config, std::int64_t ranks, const ShowProgress& show) {
  if (config.model.batchnorm == models::BatchNormPolicy::error)
    config.model.batchnorm = models::BatchNormPolicy::micro;
  train::use_resources(config);
  train::Workload work =
      train::open_workload(train::with_whole_batch(std::move(config), ranks), show);
  work.ranks = train::ranks_that_share(work.config, ranks);
  models::check_batch_norms(*work.model, work.config.model.batchnorm);
  train::take_reference(work, show);
  train::decide_acceleration(work);
  return work;
}

}  // namespace accrue::proof
