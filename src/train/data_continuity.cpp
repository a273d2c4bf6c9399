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
  if (before.samples == now.samples && before.held_out == now.held_out) return DataChange::accepted;
  const auto counts = [](const DataIdentity& data) {
    return std::to_string(data.samples) + " training samples and " + std::to_string(data.held_out) +
           " held out";
  };
  throw usage_error("resume with --accept-data",
                    before.samples == 0 ? "a checkpoint that tells how many samples its data had"
                                        : counts(before) + ", as before",
                    counts(now) + " in " + received,
                    "the same files, or a new run.out that starts from this model");
}

}  // namespace accrue::train
