#include "accrue/train/run_directory.h"
#include "accrue/train/workload.h"
#include "checkpoint.h"

namespace accrue::train {

std::unique_ptr<models::Model> load_model(const RunDirectory& run,
                                          std::optional<std::int64_t> step) {
  const VerifiedCheckpoint checkpoint(find_checkpoint(run, step), VerifiedCheckpoint::Files::model);
  std::unique_ptr<models::Model> model = make_model(checkpoint.with_shape(run.config()));
  checkpoint.load(*model);
  return model;
}

}  // namespace accrue::train
