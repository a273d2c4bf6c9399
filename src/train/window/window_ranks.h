#pragma once

#include "train/checkpoint/window_middle.h"

namespace accrue::train {

/// The ranks that share a window, for a runner that saves it in its middle. They close it before it
/// is complete: each enters the closing reduction with what it has done, like a rank with fewer
/// micro-batches, so no rank has to know how far the others are.
class WindowRanks {
 public:
  virtual ~WindowRanks() = default;
  /// Whether this rank has to close the window with what it has done: because it `wishes` to, which
  /// the others then learn, or because one of them does. Call it between micro-batches.
  virtual bool close_early(bool wishes) = 0;
  /// The part that all ranks have done of a window that they closed early, the same on each; `mine`
  /// is this rank's. Collective. Throws a runtime Error that names the rank whose part does not fit
  /// the others' in any window.
  virtual WindowMiddle gather_middle(const WindowMiddle& mine) = 0;
  /// Whether this is the rank that saves what is done, and continues with the sums.
  virtual bool is_first() const = 0;
  /// The part of `all` with which this rank continues: on the first rank what is done, and on each
  /// a share of the rest.
  virtual WindowMiddle part_of(const WindowMiddle& all) const = 0;
};

}  // namespace accrue::train
