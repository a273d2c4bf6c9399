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

/// A window in the middle, as plain data: what a user's own checkpoint holds. Sums are copies by
/// name; slots that nothing was added to yet have none.
struct WindowState {
  std::int64_t index = 0;
  bool open = false;
  bool lost = false;
  double loss_scale = 1;
  std::vector<LedgerEntry> entries;
  NamedParameters sums;                     ///< as GradientBuffer::saved_sum gives them
  std::vector<std::int64_t> contributions;  ///< of each sum
  std::vector<int> units;                   ///< GradientBuffer::units()
};

/// One optimizer step's worth of micro-batches: a ledger of what went in, with the gradient buffer
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
/// Out of order, each call throws a usage Error that names the call expected.
///
/// Between micro-batches `.grad` of a parameter shows its sum so far (if the dtypes agree), to
/// be read and not written. From open to close these are refused, by `begin` and `close`, each
/// once:
///   - zero_grad() that detaches gradients, and gradients that a backward outside a micro-batch
///     left: the sums are intact, `.grad` is bound anew, and the window goes on;
///   - zero_grad(false), clipping and other writes to `.grad`, a backward outside a micro-batch
///     that autograd added to a sum, a step() that changes parameters, and a parameter that was
///     moved or converted: the sums are no longer those of the ledger, and the window is lost.
/// Version counters tell of most of these. If watch_contents() was called, a few elements of
/// each parameter and sum are compared, too: writes through data(), as libtorch's SGD and clipping
/// make them, are counted by none.
/// A lost window goes through the same calls, but records micro-batches as lost, and closes to
/// nothing.
///
/// If the buffer folds gradients into an optimizer's state, nothing can be undone: a micro-batch
/// that fails before anything of it was folded counts as if its gradient were zero (the announced
/// total weight stays the denominator), and any other failure loses the window and leaves it torn.
///
/// A micro-batch is a transaction. One whose gradient is not finite is quarantined: at its commit
/// where the accumulation looks at each contribution, at close in any other. The committed ones
/// then run again into a fresh buffer, so the sums have the bits they would have without it.
/// Without a replay the window is lost.
class Window {
 public:
  explicit Window(std::shared_ptr<GradientBuffer> buffer);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// Opens window `index`: all slots are fresh, `.grad` is undefined. Throws a usage Error if a
  /// parameter belongs to another window that is open.
  ///
  /// `loss_scale` (finite, >= 1; a power of two, so that it rounds nothing) is what the caller
  /// multiplies losses with before backward, as narrow gradients need; the mean is free of it.
  /// If the scale can fall, a gradient that is not finite is an overflow: the window runs again
  /// with a smaller one, and nothing is quarantined.
  ///
  /// `total_weight` is what the weights of all micro-batches will add up to (finite, >= 0). A
  /// buffer that folds gradients into an optimizer needs it, and no loss scale; any other ignores
  /// it. Such a window has no second try: see is_torn().
  void open(std::int64_t index, double loss_scale = 1, std::optional<double> total_weight = {});
  bool is_open() const { return open_; }
  bool in_micro_batch() const { return in_micro_batch_; }  ///< between begin and commit or abort
  bool is_lost() const { return lost_; }
  /// Whether, with a buffer that folds, something was folded into the optimizer's state, and no
  /// step can follow, as the window is lost or was discarded. Its state is to be loaded anew.
  bool is_torn() const { return buffer_->is_between_steps() && (lost_ || !open_) && !closed_; }
  /// Why a lost window is lost.
  const std::string& lost_reason() const { return lost_reason_; }
  /// The scale that this window has now; replays are to use it too.
  double loss_scale() const { return loss_scale_; }
  /// Times that the open window was started again for an overflow or for larger units.
  std::int64_t retries() const { return retries_; }

  enum class Watch { all, sums };
  /// Compares contents from the next window on (see above); to be called while none is open. On a
  /// device close() alone tells of what it finds, with one copy to the host, and looks only if
  /// it waits for the norm anyway (`check_finite`). With Watch::sums parameters may change while a
  /// window is open, whether a version counter tells of it or not.
  void watch_contents(Watch watch = Watch::all);
  /// Says that others, such as a reduction over ranks, write to the open window's sums from here to
  /// close(): what they hold is not compared.
  void leave_sums();

  /// Starts a micro-batch: slots take gradients until `commit` or `abort`, `.grad` of parameters is
  /// bound to them. Throws a usage Error naming `zero_grad()` or `step()` if the gradients or
  /// the parameters were changed inside the window.
  void begin(MicroRef micro);
  /// Ends the micro-batch. Throws a usage Error, and aborts it, unless `weight` is finite and >= 0,
  /// `loss_sum` is finite, and all gradients arrived in their slots (naming the parameter). Returns
  /// what became of it: committed, quarantined for its gradient, or lost with the window. If a
  /// contribution was too large for fixed-point sums, their units are enlarged and all
  /// micro-batches run again.
  MicroStatus commit(double loss_sum, double weight);
  /// Ends the micro-batch without its contribution. Where it has added something the window is
  /// undone: with `replay` the committed micro-batches are run again into a fresh buffer, without
  /// one the whole window is lost (`close` then returns nothing). What `replay` throws goes on to
  /// the caller, and the window is lost.
  void abort(MicroStatus status, const std::string& reason);

  /// Tells the loss sums of micro-batches that were committed with 0 because nobody had waited for
  /// a device; to be called before close(). One that is not finite quarantines its micro-batch as
  /// abort() would have, and those that are left are run again.
  struct SettledLoss {
    std::int64_t index = 0;  ///< MicroRef::index
    double sum = 0;
  };
  void settle_losses(const std::vector<SettledLoss>& losses);

  /// Gives up the open window between micro-batches, where one that the caller cannot do without
  /// did not go through: it is lost, and close() returns nothing. Of one that was closed, it says
  /// that no step followed.
  void lose(const std::string& reason);

  /// Runs one micro-batch again (forward and backward) and returns its loss.
  using Replay = std::function<Loss(const MicroRef&)>;
  void set_replay(Replay replay) { replay_ = std::move(replay); }

  /// Told of each micro-batch as it is quarantined. Returns whether the factors that scale the
  /// others' losses changed with it (several losses with denominators of their own): then the
  /// committed ones run again, and the ledger takes their loss sums and weights anew.
  using OnQuarantine = std::function<bool(const LedgerEntry&)>;
  void set_on_quarantine(OnQuarantine told) { on_quarantine_ = std::move(told); }

  /// Asked after an overflow: the scale to go on with (>= 1), or nothing if it cannot fall.
  /// Without it the scale is halved while it is above 1.
  using OnOverflow = std::function<std::optional<double>()>;
  void set_on_overflow(OnOverflow next_scale) { on_overflow_ = std::move(next_scale); }

  /// Makes this window one rank's share of a window of several ranks: close() then sums over all of
  /// them. `reduction` is kept by reference; null: this rank is alone. Throws a usage Error for a
  /// buffer that folds.
  void set_reduction(Reduction* reduction);

  /// Ends the window: slots still fresh become zero (`.grad` of their parameters stays undefined,
  /// so that an optimizer skips what was not used). Returns nothing if the total weight is 0 or
  /// the window was lost: no step is to be taken. The window may be opened again after it.
  ///
  /// `check_finite` takes the gradient's norm (which MeanGradient remembers). If it is not
  /// finite, the committed micro-batches run again one by one, and those after which the buffer is
  /// not finite are quarantined: at most two runs of the window for any number of them.
  ///
  /// With a reduction all ranks return alike, whichever of them a failure was on: the total weight
  /// is that of all ranks, and a replay is one on every rank.
  std::optional<MeanGradient> close(bool check_finite = true);

  /// Whether close() found that ranks have not done all of their shares (Reduction's `unfinished`).
  /// The window is then still open, with the sums of all ranks on each of them, so that one alone
  /// is to go on with them: that one calls take_over(), the others discard().
  bool is_unfinished() const { return unfinished_; }
  /// Goes on with the sums of all ranks; `entries` are what all ranks have put into them.
  void take_over(std::vector<LedgerEntry> entries);

  /// Drops the open window and everything in it; nothing if none is open.
  void discard();

  /// The ledger of the open window, or of the last one until the next is opened.
  LedgerView ledger() const;
  /// The weight committed so far.
  double weight() const;
  const std::shared_ptr<GradientBuffer>& buffer() const { return buffer_; }

  /// Throws a usage Error inside a micro-batch.
  WindowState state() const;
  /// Continues from `state`, to the bit. No window may be open. Throws a usage Error naming the
  /// first sum that fits no parameter; nothing is changed then.
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

  /// Where a replay looks for what is not finite: at the marks of accumulations that look at each
  /// contribution, or at the sums.
  enum class Look { marks, sums };
  /// Deals with what `entry`'s contributions are found to be. Returns what it was where the
  /// committed micro-batches have to run again, and otherwise an empty text. So do non_finite(),
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
  double total_weight_ = 0;  ///< as announced, where the buffer folds
  bool open_ = false;
  bool closed_ = false;  ///< close() gave a gradient, which a step is to consume
  bool in_micro_batch_ = false;
  bool lost_ = false;
  bool unfinished_ = false;
  bool recount_ = false;  ///< replays may give other loss sums and weights than the first time
};

}  // namespace accrue::accum
