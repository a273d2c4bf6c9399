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

/// A micro-batch of a window that is in the middle, and what it came to.
struct DoneMicroBatch {
  /// Committed or quarantined; its index is its place among all. Its samples are listed where some
  /// of the micro-batch's were left out; else they are all of its range (WindowMiddle::entry_of).
  LedgerEntry entry;
  bool lists_samples = false;
  /// HeadSums of a committed one whose losses are told one by one; empty otherwise.
  std::vector<double> loss_sums = {}, loss_weights = {}, measures = {};
};

/// A window between two of its micro-batches, as plain data: its ledger, and what else the rest of
/// the window depends on or reports. With the gradient sums and the model's buffers
/// (StartedWindow) it goes on from here to the same bits.
struct WindowMiddle {
  std::int64_t window = 0;                                   ///< its index, TrainState::window
  double loss_scale = 1;                                     ///< of this window's losses
  std::optional<optim::LossScaler::State> loss_scaler = {};  ///< of fp16 alone
  std::int64_t micro_batch = 1;  ///< RecoveryState::micro_batch, when it was kept
  /// Done and to be done, of the whole window or of a rank's part: none is empty, and no sample is
  /// in two of them.
  std::vector<batch::Range> micro_batches;
  std::vector<DoneMicroBatch> done;  ///< the first of them, in order
  /// How often each parameter with a gradient sum was added to, by its name.
  std::map<std::string, std::int64_t> contributions = {};
  std::vector<std::string> exclude = {};  ///< data.exclude, with which it was done
  std::vector<int> units = {};            ///< accum::GradientBuffer::units()
  std::vector<double> noise_sums = {};
  std::int64_t tokens = 0;
  double seconds = 0;  ///< that the window took until then
  std::vector<batch::UnreadableSample> unreadable = {};

  /// "3 of 8 micro-batches"
  std::string in_words() const;
  /// The ledger's entry of the micro-batch at `place` of those that are done, with its samples.
  LedgerEntry entry_of(std::size_t place) const;
  /// Appends the next micro-batch that is done; `entry` has its samples.
  DoneMicroBatch& append(LedgerEntry entry);
};

/// What a rank goes on with that has done nothing of the window that `all` tells of, but for its
/// micro-batches.
WindowMiddle nothing_done_of(const WindowMiddle& all);

/// A window's middle with its tensors: gradient sums under "sum." and the model's buffers under
/// "buffer.", if it has any.
struct StartedWindow {
  WindowMiddle middle;
  StoredTensors tensors;
};

inline constexpr const char* sum_prefix = "sum.";
inline constexpr const char* buffer_prefix = "buffer.";

nlohmann::json to_json(const WindowMiddle& middle);

/// Reads back what to_json() wrote, of window `window`. Throws a usage Error that names the value
/// which is missing, of another type, or none that a window can have.
WindowMiddle window_middle_from_json(const StateReader& in, std::int64_t window);
/// Reads back a rank's share of a window in the same way: it may be empty, and any number of its
/// micro-batches may be done.
WindowMiddle share_middle_from_json(const StateReader& in, std::int64_t window);

}  // namespace accrue::train
