#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/accum/mean_gradient.h"
#include "accrue/accum/reduction.h"
#include "accrue/core/ledger.h"
#include "accrue/core/loss.h"
#include "accrue/core/parameter.h"

namespace accrue::accum {

class ContentWatch;

/// The state of a window at any point, as plain data, for a user's checkpoint. Sums are copies by
/// name; slots without a contribution have none.
struct WindowState {
  std::int64_t index = 0;
  bool open = false;
  bool lost = false;
  double loss_scale = 1;
  std::vector<LedgerEntry> entries;
  NamedParameters sums;                     ///< from GradientBuffer::saved_sum()
  std::vector<std::int64_t> contributions;  ///< of each sum
  std::vector<int> units;                   ///< GradientBuffer::units()
};

/// The micro-batches of one optimizer step: a ledger of the contributions, with the gradient buffer
/// as its cache.
///
///   window.open(index);
///   for (const MicroRef& micro : micro_batches) {
///     window.begin(micro);
///     loss = forward(micro);
///     backward(loss.sum);
///     window.commit(loss_sum, loss.weight);
///   }
///   if (auto gradient = window.close()) optimizer.step(std::move(*gradient), lr);
///
/// Each call out of this order throws a usage Error that names the expected call.
///
/// Between micro-batches `.grad` of a parameter shows its sum so far (if the dtypes agree), for
/// reading only. From open to close, `begin` and `close` detect and refuse the following, once
/// each:
///   - zero_grad() that detaches gradients, and gradients from a backward outside a micro-batch:
///     the sums are intact, `.grad` is bound again, and the window continues;
///   - zero_grad(false), clipping and other writes to `.grad`, a backward outside a micro-batch
///     that autograd added to a sum, a step() that changes parameters, and a parameter that was
///     moved or converted: the sums no longer match the ledger, and the window is lost.
/// Version counters reveal most of these. If watch_contents() was called, a few elements of each
/// parameter and sum are compared as well: writes through data(), such as those of libtorch's SGD
/// and clipping, change no counter.
/// A lost window accepts the same calls, but records micro-batches as lost, and close() returns
/// nothing.
///
/// If the buffer folds gradients into an optimizer's state, nothing can be undone. A micro-batch
/// that fails before anything of it was folded counts with gradient zero (the announced total
/// weight stays the denominator). Any other failure loses the window and leaves it torn.
///
/// A micro-batch is a transaction. One whose gradient is not finite is quarantined: at its commit
/// if the accumulation checks each contribution, and otherwise at close. The committed ones then
/// run again into a fresh buffer, so the sums have the same bits as without it. Without a replay
/// the window is lost.
class Window {
 public:
  explicit Window(std::shared_ptr<GradientBuffer> buffer);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// Opens window `index`: all slots are fresh, `.grad` is undefined. Throws a usage Error if a
  /// parameter belongs to another open window.
  ///
  /// `loss_scale` (finite, >= 1; a power of two, so that it does not round) is the factor by which
  /// the caller multiplies losses before backward, for narrow gradients; the mean is free of it. If
  /// the scale can fall, a gradient that is not finite is an overflow: the window runs again with a
  /// smaller scale, and nothing is quarantined.
  ///
  /// `total_weight` is the sum of the weights of all micro-batches (finite, >= 0). A buffer that
  /// folds gradients into an optimizer requires it, and no loss scale; any other buffer ignores it.
  /// Such a window cannot be repeated: see is_torn().
  void open(std::int64_t index, double loss_scale = 1, std::optional<double> total_weight = {});
  bool is_open() const { return open_; }
  bool in_micro_batch() const { return in_micro_batch_; }  ///< between begin and commit or abort
  bool is_lost() const { return lost_; }
  /// Whether a buffer that folds has changed the optimizer's state and no step can follow, because
  /// the window is lost or was discarded. The optimizer's state must then be loaded again.
  bool is_torn() const { return buffer_->is_between_steps() && (lost_ || !open_) && !closed_; }
  /// Why a lost window is lost.
  const std::string& lost_reason() const { return lost_reason_; }
  /// The current scale of this window; replays must use it too.
  double loss_scale() const { return loss_scale_; }
  /// How often the open window was started again, for an overflow or for larger units.
  std::int64_t retries() const { return retries_; }

  enum class Watch { all, sums };
  /// Compares contents from the next window on (see above); call while no window is open. On a
  /// device only close() reports differences, with one copy to the host, and only if it waits for
  /// the norm anyway (`check_finite`). With Watch::sums parameters may change while a window is
  /// open, in ways that version counters record or not.
  void watch_contents(Watch watch = Watch::all);
  /// Announces that other code, such as a reduction over ranks, writes to the open window's sums
  /// from here to close(): their contents are not compared.
  void leave_sums();

  /// Starts a micro-batch: slots take gradients until `commit` or `abort`, and `.grad` of the
  /// parameters is bound to them. Throws a usage Error naming `zero_grad()` or `step()` if the
  /// gradients or parameters were changed inside the window.
  void begin(MicroRef micro);
  /// Ends the micro-batch. Throws a usage Error, and aborts it, unless `weight` is finite and >= 0,
  /// `loss_sum` is finite, and all gradients arrived in their slots (naming the parameter). Returns
  /// its status: committed, quarantined because of its gradient, or lost with the window. If a
  /// contribution was too large for fixed-point sums, their units are enlarged and all
  /// micro-batches run again.
  MicroStatus commit(double loss_sum, double weight);
  /// Ends the micro-batch without its contribution. If it has added something, that is undone: with
  /// `replay` the committed micro-batches run again into a fresh buffer; without it the whole
  /// window is lost (`close` then returns nothing). Exceptions of `replay` reach the caller, and
  /// the window is lost.
  void abort(MicroStatus status, const std::string& reason);

  /// Sets the loss sums of micro-batches that were committed with 0 to avoid waiting for a device.
  /// Call before close(). A sum that is not finite quarantines its micro-batch as abort() would,
  /// and the others run again.
  struct SettledLoss {
    std::int64_t index = 0;  ///< MicroRef::index
    double sum = 0;
  };
  void settle_losses(const std::vector<SettledLoss>& losses);

  /// Gives up the open window between micro-batches, after the failure of one that the caller
  /// cannot do without: the window is lost, and close() returns nothing. For a closed window, it
  /// records that no step followed.
  void lose(const std::string& reason);

  /// Runs one micro-batch again (forward and backward) and returns its loss.
  using Replay = std::function<Loss(const MicroRef&)>;
  void set_replay(Replay replay) { replay_ = std::move(replay); }

  /// Called for each micro-batch that is quarantined. Returns whether this changed the factors that
  /// scale the other losses (several losses with separate denominators): then the committed ones
  /// run again, and the ledger takes their new loss sums and weights.
  using OnQuarantine = std::function<bool(const LedgerEntry&)>;
  void set_on_quarantine(OnQuarantine told) { on_quarantine_ = std::move(told); }

  /// Called after an overflow: returns the new scale (>= 1), or nothing if it cannot fall. If it is
  /// not set, the scale is halved while it is above 1.
  using OnOverflow = std::function<std::optional<double>()>;
  void set_on_overflow(OnOverflow next_scale) { on_overflow_ = std::move(next_scale); }

  /// Makes this window one rank's share of a window of several ranks: close() then sums over all of
  /// them. `reduction` is kept by reference; null: this rank is alone. Throws a usage Error for a
  /// buffer that folds.
  void set_reduction(Reduction* reduction);

  /// Ends the window: slots that are still fresh become zero (`.grad` of their parameters stays
  /// undefined, so an optimizer skips unused ones). Returns nothing if the total weight is 0 or the
  /// window was lost: no step may be taken. The window may be opened again afterwards.
  ///
  /// `check_finite` computes the norm of the gradient (which MeanGradient caches). If it is not
  /// finite, the committed micro-batches run again one by one, and those after which the buffer is
  /// not finite are quarantined: at most two runs of the window for any number of them.
  ///
  /// With a reduction all ranks return the same, whichever of them had a failure: the total weight
  /// is that of all ranks, and a replay takes place on every rank.
  std::optional<MeanGradient> close(bool check_finite = true);

  /// Whether close() found that ranks have not done all of their shares (Reduction's `unfinished`).
  /// The window is then still open, with the sums of all ranks on each rank. One rank continues
  /// with them and calls take_over(); the others call discard().
  bool is_unfinished() const { return unfinished_; }
  /// Continues with the sums of all ranks; `entries` are the ledger entries of all ranks.
  void take_over(std::vector<LedgerEntry> entries);

  /// Drops the open window and all its contents; does nothing if none is open.
  void discard();

  /// The ledger of the open window, or of the last one until the next is opened.
  LedgerView ledger() const;
  /// The weight committed so far.
  double weight() const;
  const std::shared_ptr<GradientBuffer>& buffer() const { return buffer_; }

  /// Throws a usage Error inside a micro-batch.
  WindowState state() const;
  /// Continues from `state`, with the same bits. No window may be open. Throws a usage Error naming
  /// the first sum that fits no parameter; nothing is changed then.
  void load(const WindowState& state);

 private:
  std::string where() const;
  void require_foldable(double loss_scale, std::optional<double> total_weight) const;
  void check_total_weight();
  void drop_folded(const std::string& reason);
  void require_open(const char* call) const;
  void require_between(const char* call) const;
  void require_own_sums(const char* call) const;
  void take_slots();
  void release_slots();
  void open_slots();
  void close_slots();
  void see_parameter_versions();
  void check_undisturbed(const char* call, bool waits_for_device);
  void check_arrived() const;
  std::int64_t contributions() const;

  /// A replay looks for values that are not finite at the marks of accumulations that check each
  /// contribution, or at the sums.
  enum class Look { marks, sums };
  /// Handles what was found in the contributions of `entry`. Returns a description if the committed
  /// micro-batches have to run again, and otherwise an empty text. So do non_finite(),
  /// enlarge_units() and lower_loss_scale(), which is empty if the scale cannot fall.
  std::string settle(LedgerEntry& entry, Look look);
  std::string non_finite(Look look) const;
  std::string enlarge_units();
  std::string lower_loss_scale();
  bool quarantine(LedgerEntry& entry, const std::string& reason);
  void undo(const std::string& reason, Look look = Look::marks);
  bool replay_committed(Look look);
  void run_again(LedgerEntry& entry);
  void start_over();
  void audit();
  std::optional<MeanGradient> mean();
  std::optional<MeanGradient> audited_mean(bool check_finite);
  std::optional<MeanGradient> reduced_mean(bool check_finite);
  MeanGradient mean_over(double weight);

  std::shared_ptr<GradientBuffer> buffer_;
  Reduction* reduction_ = nullptr;
  std::vector<LedgerEntry> entries_;
  /// The parameters' versions when the window opened, in order of the buffer's entries.
  std::vector<std::int64_t> parameter_versions_;
  std::unique_ptr<ContentWatch> contents_;  ///< null: contents are not compared
  Watch watch_ = Watch::all;
  Replay replay_;
  OnQuarantine on_quarantine_;
  OnOverflow on_overflow_;
  std::string lost_reason_;
  std::int64_t index_ = 0;
  std::int64_t contributions_at_begin_ = 0;
  std::int64_t retries_ = 0;
  double loss_scale_ = 1;
  double total_weight_ = 0;  ///< as announced, if the buffer folds
  bool open_ = false;
  bool closed_ = false;  ///< close() returned a gradient, which a step must consume
  bool in_micro_batch_ = false;
  bool lost_ = false;
  bool unfinished_ = false;
  bool recount_ = false;  ///< replays may give other loss sums and weights than the first run
};

}  // namespace accrue::accum
