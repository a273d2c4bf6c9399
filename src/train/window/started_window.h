#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "accrue/accum/window.h"
#include "accrue/models/trainable.h"
#include "train/checkpoint/window_middle.h"
#include "train/pass/head_sums.h"
#include "train/window/window_ranks.h"

namespace accrue::train {

/// Saves a window between two of its micro-batches, in a checkpoint.
struct WindowKeeper {
  /// Whether a checkpoint is due now, in a window that has taken so many seconds.
  std::function<bool(double seconds)> is_due;
  /// Writes it; the window must not continue before this returns. Null: windows of this run are not
  /// saved in their middle.
  std::function<void(StartedWindow)> keep;
  /// The ranks that share windows close one early, and the first of them saves it. Null: the
  /// process is alone.
  WindowRanks* ranks = nullptr;
  /// The samples of a micro-batch that memory allows now; only called with several ranks.
  std::function<std::int64_t()> micro_batch = {};
};

/// The tensors that make up the sums of an open window, read when they are copied: the window must
/// not change until then. Slots without contributions have none.
StoredTensors stored_sums(const accum::GradientBuffer& buffer);
/// The number of contributions to each parameter of stored_sums().
std::map<std::string, std::int64_t> contributions_of(const accum::GradientBuffer& buffer);
/// Copies of a model's buffers.
StoredTensors stored_buffers(const models::Trainable& model);

/// A window's middle with copies of its tensors, in place of tensors that are read later.
StartedWindow with_copies(StartedWindow started);

/// The results of a finished micro-batch, loss by loss. Throws a usage Error if a checkpoint has
/// them for other losses than `heads`.
HeadSums losses_of(const DoneMicroBatch& done, const std::vector<models::LossHead>& heads);

/// The state from which accum::Window::load() continues. Reads the sums.
accum::WindowState state_of(const StartedWindow& started);
/// Restores the buffers to their values in the window's middle. Throws a usage Error that names a
/// buffer for which the window has none.
void load_buffers(const StartedWindow& started, const models::Trainable& model);

}  // namespace accrue::train
