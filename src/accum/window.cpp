#include "accrue/accum/window.h"

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"
#include "accum/content_watch.h"
#include "accum/slot_binding.h"

namespace accrue::accum {
namespace {

using Entry = GradientBuffer::Entry;

}  // namespace

Window::Window(std::shared_ptr<GradientBuffer> buffer) : buffer_(std::move(buffer)) {}

Window::~Window() { discard(); }

std::string Window::where() const { return "window " + std::to_string(index_); }

void Window::require_open(const char* call) const {
  if (!open_) throw usage_error(call, "an open window", "a closed one", "calling open() before it");
}

void Window::require_between(const char* call) const {
  if (in_micro_batch_)
    throw usage_error(call, "no micro-batch in progress",
                      "micro-batch " + std::to_string(entries_.back().micro.index),
                      "calling commit() or abort() before it");
}

void Window::require_own_sums(const char* call) const {
  if (unfinished_)
    throw usage_error(call, "a window with this rank's own sums",
                      where() + ", which has those of all ranks",
                      "calling take_over() or discard() before it");
}

void Window::require_foldable(double loss_scale, std::optional<double> total_weight) const {
  const auto require = [](bool holds, const char* expected, const std::string& received,
                          const char* suggestion) {
    if (!holds)
      throw usage_error("open (folding into an optimizer)", expected, received, suggestion);
  };
  require(total_weight && std::isfinite(*total_weight) && *total_weight >= 0,
          "the window's total weight, finite and >= 0",
          total_weight ? std::to_string(*total_weight) : "none",
          "LossHead::weight, which computes it from the labels");
  require(loss_scale == 1, "no loss scale", std::to_string(loss_scale), "a gradient buffer");
  require(!buffer_->is_between_steps(), "an optimizer between two windows",
          "one whose state is that of an unfinished window",
          "step() after close(), or load_state() of the last checkpoint");
}

void Window::open(std::int64_t index, double loss_scale, std::optional<double> total_weight) {
  if (open_)
    throw usage_error("open", "no open window", where(), "calling close() or discard() before it");
  if (!std::isfinite(loss_scale) || loss_scale < 1)
    throw usage_error("open", "a finite loss scale of at least 1", std::to_string(loss_scale),
                      "1, or a power of two for gradients in fp16");
  if (buffer_->needs_total_weight()) require_foldable(loss_scale, total_weight);
  buffer_->claim();
  index_ = index;
  loss_scale_ = loss_scale;
  total_weight_ = total_weight.value_or(0);
  entries_.clear();
  retries_ = 0;
  lost_ = recount_ = closed_ = unfinished_ = false;
  lost_reason_.clear();
  take_slots();
  buffer_->begin_window(index);
  if (buffer_->folds()) buffer_->begin_folding(total_weight_);
  open_ = true;
}

void Window::watch_contents(Watch watch) {
  if (open_)
    throw usage_error("watch_contents", "no open window", where(), "calling it before open()");
  contents_ = std::make_unique<ContentWatch>(*buffer_, watch == Watch::all);
  watch_ = watch;
}

void Window::leave_sums() {
  if (contents_) contents_->leave_sums();
}

void Window::take_slots() {
  for (const Entry& entry : buffer_->entries()) {
    make_fresh(entry);
    bind(entry);
    entry.slot->in_window = true;
  }
  see_parameter_versions();
  if (contents_) contents_->begin_window();
}

void Window::release_slots() {
  for (const Entry& entry : buffer_->entries()) {
    entry.slot->open = false;
    entry.slot->in_window = false;
  }
  in_micro_batch_ = false;
  open_ = false;
}

void Window::open_slots() {
  for (const Entry& entry : buffer_->entries()) {
    bind(entry);
    entry.slot->open = true;
  }
}

void Window::close_slots() {
  for (const Entry& entry : buffer_->entries()) {
    entry.slot->open = false;
    bind(entry);
  }
  if (contents_) contents_->see_sums();
}

void Window::begin(MicroRef micro) {
  require_open("begin");
  require_between("begin");
  require_own_sums("begin");
  check_undisturbed("begin", /*waits_for_device=*/false);
  entries_.push_back({std::move(micro), MicroStatus::pending, 0, {}});
  contributions_at_begin_ = contributions();
  in_micro_batch_ = true;
  buffer_->begin_micro_batch();
  open_slots();
}

MicroStatus Window::commit(double loss_sum, double weight) {
  require_open("commit");
  if (!in_micro_batch_)
    throw usage_error("commit", "a micro-batch in progress", "none", "calling begin() before it");
  if (!std::isfinite(loss_sum) || !std::isfinite(weight) || weight < 0) {
    const std::string received =
        "a sum of " + std::to_string(loss_sum) + " and a weight of " + std::to_string(weight);
    abort(MicroStatus::quarantined, received);
    throw usage_error("commit (" + where() + ")", "a finite loss sum and a finite weight >= 0",
                      received, "looking at the data of this micro-batch, which is left out");
  }
  try {
    check_arrived();
  } catch (const Error& error) {
    abort(MicroStatus::lost, error.what());
    throw;
  }
  close_slots();
  in_micro_batch_ = false;
  LedgerEntry& entry = entries_.back();
  entry.micro.weight = weight;
  entry.loss_sum = loss_sum;
  entry.status = lost_ ? MicroStatus::lost : MicroStatus::committed;
  if (lost_) return entry.status;
  buffer_->end_micro_batch();
  if (const std::string found = settle(entry, Look::marks); !found.empty()) undo(found);
  return entry.status;
}

void Window::abort(MicroStatus status, const std::string& reason) {
  require_open("abort");
  if (!in_micro_batch_)
    throw usage_error("abort", "a micro-batch in progress", "none", "calling begin() before it");
  in_micro_batch_ = false;
  close_slots();
  LedgerEntry& last = entries_.back();
  last.status = status;
  last.reason = reason;
  const bool others_changed = status == MicroStatus::quarantined && quarantine(last, reason);
  const bool touched = contributions() != contributions_at_begin_;
  const bool half_written = std::ranges::any_of(buffer_->entries(), [](const Entry& entry) {
    return entry.slot->unfinished || entry.slot->bound._version() != entry.slot->bound_version;
  });
  if (touched || half_written || others_changed) undo(reason);
}

std::int64_t Window::contributions() const {
  std::int64_t sum = 0;
  for (const Entry& entry : buffer_->entries()) sum += entry.slot->contributions;
  return sum;
}

std::optional<MeanGradient> Window::close(bool check_finite) {
  require_open("close");
  require_between("close");
  require_own_sums("close");
  check_undisturbed("close", /*waits_for_device=*/check_finite);
  if (buffer_->needs_total_weight()) check_total_weight();
  std::optional<MeanGradient> gradient =
      reduction_ != nullptr ? reduced_mean(check_finite) : audited_mean(check_finite);
  if (unfinished_) return std::nullopt;
  if (!gradient) {
    discard();
    return std::nullopt;
  }
  release_slots();
  closed_ = true;
  return gradient;
}

std::optional<MeanGradient> Window::audited_mean(bool check_finite) {
  std::optional<MeanGradient> gradient = mean();
  if (!check_finite || !gradient || buffer_->folds() || std::isfinite(gradient->norm()))
    return gradient;
  audit();
  gradient = mean();
  if (!gradient || std::isfinite(gradient->norm())) return gradient;
  lose("the gradient's norm is " + std::to_string(gradient->norm()));
  return std::nullopt;
}

/// A quarantined micro-batch was part of the announced weight, by an unknown amount.
void Window::check_total_weight() {
  constexpr double rounding = 1e-9;
  const double excess = weight() / total_weight_ - 1;
  const bool whole = ledger().count(MicroStatus::quarantined) == 0;
  if (lost_ || weight() == 0 || (whole ? std::abs(excess) : excess) <= rounding) return;
  const std::string received = "weights that add up to " + std::to_string(weight());
  lose(received + " where " + std::to_string(total_weight_) + " were announced");
  throw usage_error("close (" + where() + ")",
                    "the total weight given to open(), " + std::to_string(total_weight_), received,
                    "counting the same terms in LossHead::weight; this window is lost");
}

std::optional<MeanGradient> Window::mean() {
  if (lost_ || weight() == 0) return std::nullopt;
  return mean_over(weight());
}

MeanGradient Window::mean_over(double weight) {
  const SumShard* shard = reduction_ != nullptr ? reduction_->shard() : nullptr;
  buffer_->end_window(shard);
  MeanGradient gradient(buffer_, weight, shard);
  if (!buffer_->folds()) gradient.scale_ /= loss_scale_;
  return gradient;
}

void Window::discard() {
  if (!open_) return;
  unfinished_ = false;
  if (reduction_ != nullptr) reduction_->withdraw();
  release_slots();
  for (const Entry& entry : buffer_->entries()) {
    make_fresh(entry);
    bind(entry);
  }
}

LedgerView Window::ledger() const { return {index_, entries_}; }

double Window::weight() const { return ledger().committed_weight(); }

WindowState Window::state() const {
  require_between("state");
  require_own_sums("state");
  if (open_ && buffer_->folds())
    throw usage_error("state (" + where() + ")", "a window with sums of its own",
                      "one that folds its gradients into an optimizer", "saving between windows");
  WindowState state{index_, open_, lost_, loss_scale_, entries_};
  state.units = buffer_->units();
  if (!open_) return state;
  for (const Entry& entry : buffer_->entries()) {
    if (entry.slot->fresh) continue;
    state.sums.push_back({entry.name, GradientBuffer::saved_sum(entry)});
    state.contributions.push_back(entry.slot->contributions);
  }
  return state;
}

void Window::load(const WindowState& state) {
  if (open_)
    throw usage_error("load", "no open window", where(), "calling close() or discard() before it");
  std::vector<const Entry*> targets;
  for (const NamedParameter& sum : state.sums) {
    const auto entry = std::ranges::find(buffer_->entries(), sum.name, &Entry::name);
    if (entry == buffer_->entries().end() || !GradientBuffer::fits(*entry, sum.tensor))
      throw usage_error("load", "sums that fit the parameters by name, shape and precision",
                        "'" + sum.name + "', which does not",
                        "loading into the model that the state was saved from");
    targets.push_back(&*entry);
  }
  if (state.contributions.size() != targets.size())
    throw usage_error("load", "a count of contributions for each sum",
                      std::to_string(state.contributions.size()) + " for " +
                          std::to_string(targets.size()) + " sums",
                      "the state as it was saved");
  buffer_->set_units(state.units);
  if (state.open) open(state.index, state.loss_scale);
  index_ = state.index;
  entries_ = state.entries;
  lost_ = state.lost;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    GradientBuffer::restore_sum(*targets[i], state.sums[i].tensor, state.contributions[i]);
    bind(*targets[i]);
  }
  if (contents_ && open_) contents_->see_sums();
}

}  // namespace accrue::accum
