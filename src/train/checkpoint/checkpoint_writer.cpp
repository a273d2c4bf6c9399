#include "train/checkpoint/checkpoint_writer.h"

#include <utility>

#include "core/helper_thread.h"

namespace accrue::train {

CheckpointWriter::~CheckpointWriter() {
  if (writing_.valid()) writing_.wait();
}

bool CheckpointWriter::start(const std::function<void()>& write) {
  HelperTask<void> begun = run_on_helper(write);
  writing_ = std::move(begun.result);
  return !begun.in_place;
}

void CheckpointWriter::finish() {
  if (writing_.valid()) writing_.get();
}

}  // namespace accrue::train
