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

/// Keeps a window between two of its micro-batches, in a checkpoint.
struct WindowKeeper {
  /// Whether a checkpoint is to be written now, in a window that has taken so many seconds.
  std::function<bool(double seconds)> is_due;
  /// Writes it; the window must not go on before this returns. Null: windows of this run are not
  /// kept in their middle.
  std::function<void(StartedWindow)> keep;
  /// The ranks that share windows close one early, and the first of them keeps it. Null: the
  /// process is alone.
  WindowRanks* ranks = nullptr;
  /// The samples of a micro-batch that memory allows now; asked of ranks alone.
  std::function<std::int64_t()> micro_batch = {};
};

/// What makes the sums of an open window, read when they are copied: the window must not change
/// until then. Slots that nothing was added to have none.
StoredTensors stored_sums(const accum::GradientBuffer& buffer);
/// How often each parameter of stored_sums() was added to.
std::map<std::string, std::int64_t> contributions_of(const accum::GradientBuffer& buffer);
/// Copies of a model's buffers.
StoredTensors stored_buffers(const models::Trainable& model);

/// A window's middle with copies of its tensors, in place of what is read when it is copied.
StartedWindow with_copies(StartedWindow started);

/// What a micro-batch that is done came to, loss by loss. Throws a usage Error if a checkpoint
/// says it of other losses than `heads`.
HeadSums losses_of(const DoneMicroBatch& done, const std::vector<models::LossHead>& heads);

/// What accum::Window::load() goes on from. Reads the sums.
accum::WindowState state_of(const StartedWindow& started);
/// Puts the buffers back as they were in the window's middle. Throws a usage Error that names the
/// buffer which the window has none for.
void load_buffers(const StartedWindow& started, const models::Trainable& model);

}  // namespace accrue::train
