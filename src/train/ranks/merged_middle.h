#pragma once

#include <string>
#include <vector>

#include "train/checkpoint/window_middle.h"

namespace accrue::train {

/// One window's middle of what its ranks have done of their shares, as if one process had done it:
/// what is done comes first, then what is left, each in order of the samples. `window` are all its
/// samples; `weights`, by rank, are those that went into the sums.
///
/// It is pure. Throws a runtime Error that names the rank whose middle is of another window or
/// other sums than the first one's, has samples of another rank or none's, or weighs something else
/// than its sums: samples would count twice, or not at all.
WindowMiddle merge_middles(batch::Range window, const std::vector<WindowMiddle>& of_ranks,
                           const std::vector<double>& weights);

/// A rank's middle as it tells it the others.
std::string to_text(const WindowMiddle& middle);
/// Reads back what to_text() wrote on `rank`, of window `window`. Throws a runtime Error that names
/// the rank if that is something else.
WindowMiddle middle_from_text(const std::string& text, std::int64_t window, std::size_t rank);

}  // namespace accrue::train
