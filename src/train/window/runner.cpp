#include "train/window/runner.h"

#include <utility>

namespace accrue::train {

void WindowRequest::go_on_from(StartedWindow from, std::int64_t micro_batch) {
  const WindowMiddle& middle = from.middle;
  micro_batches = middle.micro_batches;
  if (middle.micro_batch != micro_batch) {
    const batch::Range left{micro_batches[middle.done.size()].begin, micro_batches.back().end};
    micro_batches.resize(middle.done.size());
    for (const batch::Range range : batch::split(left, micro_batch)) micro_batches.push_back(range);
  }
  started = std::move(from);
}

}  // namespace accrue::train
