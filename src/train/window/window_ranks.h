#pragma once

#include "train/checkpoint/window_middle.h"

namespace accrue::train {

/// The ranks that share a window, for a runner that is to keep it in its middle. They close it
/// before it is whole: each goes to the closing reduction with what it has done, as a rank with
/// fewer micro-batches does, so none of them has to know how far the others are.
class WindowRanks {
 public:
  virtual ~WindowRanks() = default;
  /// Whether this rank is to close the window with what it has done: because it `wishes` to, which
  /// the others then hear of, or because one of them does. To be asked between micro-batches.
  virtual bool close_early(bool wishes) = 0;
  /// What all ranks have done of a window that they closed so, the same on each; `mine` is this
  /// rank's. All of them call it. Throws a runtime Error that names the rank where what one tells
  /// goes with the others' in no window.
  virtual WindowMiddle bring_together(const WindowMiddle& mine) = 0;
  /// Whether this rank is the one that keeps what is done, and goes on with the sums.
  virtual bool is_first() const = 0;
  /// What this rank goes on with of `all`: on the first one what is done, on each a share of what
  /// is left.
  virtual WindowMiddle part_of(const WindowMiddle& all) const = 0;
};

}  // namespace accrue::train
