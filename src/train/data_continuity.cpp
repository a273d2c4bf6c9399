#include "data_continuity.h"

#include "accrue/core/error.h"

namespace accrue::train {

DataChange check_continuity(const DataIdentity& before, const DataIdentity& now, bool accept) {
  if (before.fingerprint == now.fingerprint) return DataChange::none;
  const std::string expected = "the data the run was started with (" + before.fingerprint + ")";
  const std::string received = "other data (" + now.fingerprint + ")";
  if (!accept)
    throw usage_error("resume", expected, received,
                      "the same files; or --accept-data, where only what was not read yet was "
                      "changed; or a new run.out that starts from this model");
  if (before.samples == now.samples) return DataChange::accepted;
  throw usage_error("resume with --accept-data",
                    before.samples == 0
                        ? "a checkpoint that tells how many samples its data had"
                        : std::to_string(before.samples) + " training samples, as before",
                    std::to_string(now.samples) + " in " + received,
                    "the same files, or a new run.out that starts from this model");
}

}  // namespace accrue::train
