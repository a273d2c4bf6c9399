#pragma once

#include <string>
#include <vector>

#include "train/checkpoint/window_middle.h"

namespace accrue::train {

/// Merges what the ranks have done of their shares of one window into a single middle, as if one
/// process had done it: first what is done, then what is left, each in order of the samples.
/// `window` are all its samples; `weights`, by rank, are those that went into the sums.
///
/// A pure function. Throws a runtime Error that names the rank whose middle is of another window or
/// other sums than the first one's, has samples of another rank or of none, or has another weight
/// than its sums: samples would count twice, or not at all.
WindowMiddle merge_middles(batch::Range window, const std::vector<WindowMiddle>& of_ranks,
                           const std::vector<double>& weights);

/// A rank's middle as text for the other ranks.
std::string to_text(const WindowMiddle& middle);
/// Reads back what to_text() wrote on `rank` for window `window`. Throws a runtime Error that names
/// the rank if the text is something else.
WindowMiddle middle_from_text(const std::string& text, std::int64_t window, std::size_t rank);

}  // namespace accrue::train
