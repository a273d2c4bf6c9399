#include "train/window/runner.h"

#include <span>
#include <utility>

namespace accrue::train {

void WindowRequest::go_on_from(StartedWindow from, std::int64_t micro_batch) {
  const WindowMiddle& middle = from.middle;
  micro_batches = middle.micro_batches;
  if (middle.micro_batch != micro_batch) {
    const std::vector<batch::Range> left =
        batch::split_again(std::span(micro_batches).subspan(middle.done.size()), micro_batch);
    micro_batches.resize(middle.done.size());
    micro_batches.insert(micro_batches.end(), left.begin(), left.end());
  }
  started = std::move(from);
  went_on = true;
}

}  // namespace accrue::train
