#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accrue::train {

/// A run's record of its data, to recognize them on resumption.
struct DataIdentity {
  std::string fingerprint;    ///< of the training data, followed by the held-out data
  std::int64_t samples = 0;   ///< training samples; 0: not known (checkpoints of earlier versions)
  std::int64_t held_out = 0;  ///< held-out samples
  bool checked = false;       ///< Source::check_contents() passed
  /// Channels, height and width that images are resized to; a checkpoint has those of its model.
  std::vector<std::int64_t> image = {};
};

enum class DataChange { none, accepted };

/// Whether a run that began with `before` can continue with `now`. Changed data are accepted only
/// on request (`accept`, --accept-data), and only if the numbers of training and held-out samples
/// are the same: then each draw is of the sample at the same index. Nothing checks that the samples
/// read so far are unchanged, since draws are spread over all files; the user vouches for that.
/// Images have to be resized to the same shape. Throws a usage Error otherwise.
DataChange check_continuity(const DataIdentity& before, const DataIdentity& now, bool accept);

}  // namespace accrue::train
