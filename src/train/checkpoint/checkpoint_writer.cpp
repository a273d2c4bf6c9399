#include "train/checkpoint/checkpoint_writer.h"

#include <utility>

namespace accrue::train {

CheckpointWriter::~CheckpointWriter() {
  if (writing_.valid()) writing_.wait();
}

void CheckpointWriter::start(std::function<void()> write) {
  writing_ = std::async(std::launch::async, std::move(write));
}

void CheckpointWriter::finish() {
  if (writing_.valid()) writing_.get();
}

}  // namespace accrue::train
