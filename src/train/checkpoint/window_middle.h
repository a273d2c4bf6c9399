#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "accrue/batch/micro_batch.h"
#include "accrue/core/ledger.h"
#include "accrue/core/stored_tensor.h"
#include "batch/schedule.h"
#include "optim/loss_scale.h"

namespace accrue::train {

class StateReader;

/// A finished micro-batch of an unfinished window, with its result.
struct DoneMicroBatch {
  /// Committed or quarantined; its index is its place among all. Its samples are listed if some of
  /// the micro-batch's were left out; else they are all of its range (WindowMiddle::entry_of).
  LedgerEntry entry;
  bool lists_samples = false;
  /// HeadSums of a committed one whose losses are reported separately; empty otherwise.
  std::vector<double> loss_sums = {}, loss_weights = {}, measures = {};
};

/// A window between two of its micro-batches, as plain data: its ledger, and whatever else the rest
/// of the window depends on or reports. With the gradient sums and the model's buffers
/// (StartedWindow) the window continues from here to the same bits.
struct WindowMiddle {
  std::int64_t window = 0;                                   ///< its index, TrainState::window
  double loss_scale = 1;                                     ///< of this window's losses
  std::optional<optim::LossScaler::State> loss_scaler = {};  ///< of fp16 alone
  std::int64_t micro_batch = 1;  ///< RecoveryState::micro_batch when this was saved
  /// Finished and pending, of the whole window or of a rank's share. None is empty, and no sample
  /// is in two of them.
  std::vector<batch::Range> micro_batches;
  std::vector<DoneMicroBatch> done;  ///< the first of them, in order
  /// How many contributions each parameter's gradient sum has, by the parameter's name.
  std::map<std::string, std::int64_t> contributions = {};
  std::vector<std::string> exclude = {};  ///< the data.exclude it was computed with
  std::vector<int> units = {};            ///< accum::GradientBuffer::units()
  std::vector<double> noise_sums = {};
  std::int64_t tokens = 0;
  double seconds = 0;  ///< that the window has taken so far
  std::vector<batch::UnreadableSample> unreadable = {};

  /// "3 of 8 micro-batches"
  std::string in_words() const;
  /// The ledger's entry of the finished micro-batch at `place`, with its samples.
  LedgerEntry entry_of(std::size_t place) const;
  /// Appends the next finished micro-batch; `entry` has its samples.
  DoneMicroBatch& append(LedgerEntry entry);
};

/// The state of the window in `all` for a rank that has done none of it yet; its micro-batches are
/// still to be set.
WindowMiddle nothing_done_of(const WindowMiddle& all);

/// The middle of a window with its tensors: gradient sums under "sum." and the model's buffers
/// under "buffer.", if it has any.
struct StartedWindow {
  WindowMiddle middle;
  StoredTensors tensors;
};

inline constexpr const char* sum_prefix = "sum.";
inline constexpr const char* buffer_prefix = "buffer.";

nlohmann::json to_json(const WindowMiddle& middle);

/// Reads back what to_json() wrote for window `window`. Throws a usage Error that names the value
/// that is missing, of another type, or impossible for a window.
WindowMiddle window_middle_from_json(const StateReader& in, std::int64_t window);
/// Reads back a rank's share of a window in the same way: it may be empty, and any number of its
/// micro-batches may be finished.
WindowMiddle share_middle_from_json(const StateReader& in, std::int64_t window);

}  // namespace accrue::train
