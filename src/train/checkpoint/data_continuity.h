#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accrue::train {

/// What a run keeps of its data to know them again.
struct DataIdentity {
  std::string fingerprint;    ///< of the training data, and of the held-out data behind it
  std::int64_t samples = 0;   ///< to train on; 0: not known (checkpoints of earlier versions)
  std::int64_t held_out = 0;  ///< held-out samples
  bool checked = false;       ///< Source::check_contents() passed
  /// Channels, height and width that images are brought to; a checkpoint has those of its model.
  std::vector<std::int64_t> image = {};
};

enum class DataChange { none, accepted };

/// Whether a run that began with `before` can go on with `now`. Data that changed are accepted only
/// by name (`accept`, --accept-data), and only if there are as many samples as before, to train
/// on and held out: then each draw is of the sample in the same place. That what was read already
/// did not change is the word of whoever accepts it: draws are from all over the files. Images have
/// to be brought to the same shape. Throws a usage Error otherwise.
DataChange check_continuity(const DataIdentity& before, const DataIdentity& now, bool accept);

}  // namespace accrue::train
