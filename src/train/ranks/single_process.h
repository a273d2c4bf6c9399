#pragma once

#include <utility>
#include <vector>

#include "train/ranks/parallelism.h"
#include "train/window/close_window.h"

namespace accrue::train {

/// One process that does each window by itself.
class SingleProcess : public Parallelism {
 public:
  explicit SingleProcess(std::vector<RankRecord> records = {}) : records_(std::move(records)) {}

  batch::Range share(batch::Range window) override { return window; }
  void close(accum::Window& window, WindowRun& run) override { close_window(window, run); }
  std::vector<RankRecord> records() const override { return records_; }

 private:
  std::vector<RankRecord> records_;
};

}  // namespace accrue::train
