#include "accrue/accum/window.h"

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"

namespace accrue::accum {
namespace {

using Entry = GradientBuffer::Entry;

/// What somebody else did to a parameter between our micro-batches, the worse the later.
enum class Disturbance { none, stray, detached, written, stepped };

bool shows_sum(const Entry& entry) { return !entry.slot->fresh && grad_can_view_slot(entry); }

Disturbance disturbance(const Entry& entry, std::int64_t parameter_version) {
  if (entry.parameter._version() != parameter_version) return Disturbance::stepped;
  const at::Tensor& grad = entry.parameter.grad();
  if (!shows_sum(entry)) return grad.defined() ? Disturbance::stray : Disturbance::none;
  if (entry.slot->bound._version() != entry.slot->bound_version) return Disturbance::written;
  return grad.is_same(entry.slot->bound) ? Disturbance::none : Disturbance::detached;
}

/// Fresh slots get no `.grad`, so that autograd hands over its first gradient instead of adding to
/// zeros.
void bind(const Entry& entry) {
  at::Tensor& grad = entry.parameter.mutable_grad();
  if (!shows_sum(entry)) {
    grad.reset();
  } else if (!grad.is_same(entry.slot->bound)) {
    grad = entry.slot->bound;
  }
}

void make_fresh(const Entry& entry) {
  entry.slot->fresh = true;
  entry.slot->contributions = 0;
  entry.slot->bound_version = entry.slot->bound._version();
}

struct Diagnosis {
  const char* received;
  const char* suggestion;
};

Diagnosis diagnosis(Disturbance what) {
  switch (what) {
    case Disturbance::stepped:
      return {
          "a changed parameter, as by step() of an optimizer:",
          "calling step() only with a closed window (Accumulator::step does both); this window is "
          "lost"};
    case Disturbance::written:
      return {"a gradient written in place, as by zero_grad(false) or clipping:",
              "leaving zero_grad() out (a window starts fresh by itself) and clipping after the "
              "window; "
              "this window is lost"};
    case Disturbance::detached:
      return {"a gradient taken away, as by zero_grad():",
              "leaving zero_grad() out or calling it after step(); the sums are intact and the "
              "window goes on"};
    case Disturbance::stray:
    case Disturbance::none:
      break;
  }
  return {
      "a gradient from a backward() outside the window's micro-batches:",
      "running every backward() of these parameters through the window; the sums are intact and "
      "the window goes on"};
}

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

void Window::open(std::int64_t index) {
  if (open_)
    throw usage_error("open", "no open window", where(), "calling close() or discard() before it");
  buffer_->claim();
  index_ = index;
  entries_.clear();
  lost_ = false;
  take_slots();
  open_ = true;
}

void Window::take_slots() {
  parameter_versions_.clear();
  for (const Entry& entry : buffer_->entries()) {
    make_fresh(entry);
    bind(entry);
    entry.slot->in_window = true;
    parameter_versions_.push_back(entry.parameter._version());
  }
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
}

void Window::begin(MicroRef micro) {
  require_open("begin");
  require_between("begin");
  check_undisturbed("begin");
  entries_.push_back({std::move(micro), MicroStatus::pending, 0, {}});
  contributions_at_begin_ = contributions();
  in_micro_batch_ = true;
  open_slots();
}

void Window::check_undisturbed(const char* call) {
  Disturbance worst = Disturbance::none;
  std::string name;
  for (std::size_t i = 0; i < parameter_versions_.size(); ++i) {
    const Entry& entry = buffer_->entries()[i];
    const Disturbance what = disturbance(entry, parameter_versions_[i]);
    if (what <= worst) continue;
    worst = what;
    name = entry.name;
  }
  if (worst == Disturbance::none) return;

  const Diagnosis text = diagnosis(worst);
  const std::string received = std::string(text.received) + " '" + name + "'";
  if (worst >= Disturbance::written) lose(received);
  for (std::size_t i = 0; i < parameter_versions_.size(); ++i) {
    const Entry& entry = buffer_->entries()[i];
    parameter_versions_[i] = entry.parameter._version();
    entry.slot->bound_version = entry.slot->bound._version();
    bind(entry);
  }
  throw usage_error(std::string(call) + " (" + where() + ")",
                    "parameters and gradients left alone while the window is open", received,
                    text.suggestion);
}

void Window::check_arrived() const {
  for (const Entry& entry : buffer_->entries()) {
    const at::Tensor& grad = entry.parameter.grad();
    if (grad.defined() && !(shows_sum(entry) && grad.is_alias_of(entry.slot->main)))
      throw usage_error("commit (" + where() + ")", "every gradient in its slot",
                        "one elsewhere, in '.grad' of '" + entry.name + "'",
                        "removing other post-accumulate-gradient hooks, and backward() without "
                        "create_graph");
  }
}

void Window::commit(double loss_sum, double weight) {
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
}

void Window::abort(MicroStatus status, const std::string& reason) {
  require_open("abort");
  if (!in_micro_batch_)
    throw usage_error("abort", "a micro-batch in progress", "none", "calling begin() before it");
  entries_.back().status = status;
  entries_.back().reason = reason;
  in_micro_batch_ = false;
  const bool touched = contributions() != contributions_at_begin_;
  const bool half_written = std::ranges::any_of(buffer_->entries(), [](const Entry& entry) {
    return entry.slot->bound._version() != entry.slot->bound_version;
  });
  if (touched || half_written) {
    undo(reason);
  } else {
    close_slots();
  }
}

void Window::undo(const std::string& reason) {
  try {
    for (const Entry& entry : buffer_->entries()) make_fresh(entry);
    close_slots();
    if (LedgerView{index_, entries_}.count(MicroStatus::committed) == 0) return;
    if (replay_) {
      replay_committed();
    } else {
      lose("a micro-batch failed half-way (" + reason + ") and there is no replay");
    }
  } catch (const std::exception& error) {
    close_slots();
    lose(std::string("the replay failed: ") + error.what());
    throw;
  }
}

void Window::replay_committed() {
  for (const LedgerEntry& entry : entries_) {
    if (entry.status != MicroStatus::committed) continue;
    open_slots();
    const Loss loss = replay_(entry.micro);
    check_arrived();
    close_slots();
    if (loss.weight != entry.micro.weight)
      throw usage_error("replay (" + where() + ")",
                        "the weight of the first time, " + std::to_string(entry.micro.weight),
                        std::to_string(loss.weight),
                        "a replay that depends on the micro-batch's index and sample ids alone");
  }
}

void Window::lose(const std::string& reason) {
  lost_ = true;
  for (LedgerEntry& entry : entries_) {
    if (entry.status != MicroStatus::committed) continue;
    entry.status = MicroStatus::lost;
    entry.reason = reason;
  }
}

std::int64_t Window::contributions() const {
  std::int64_t sum = 0;
  for (const Entry& entry : buffer_->entries()) sum += entry.slot->contributions;
  return sum;
}

std::optional<MeanGradient> Window::close() {
  require_open("close");
  require_between("close");
  check_undisturbed("close");
  const double total = weight();
  if (lost_ || total == 0) {
    discard();
    return std::nullopt;
  }
  release_slots();
  const at::NoGradGuard no_grad;
  for (const Entry& entry : buffer_->entries())
    if (entry.slot->fresh) entry.slot->main.zero_();
  return MeanGradient(buffer_, total);
}

void Window::discard() {
  if (!open_) return;
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
  WindowState state{index_, open_, lost_, entries_, {}};
  if (!open_) return state;
  for (const Entry& entry : buffer_->entries())
    if (!entry.slot->fresh) state.sums.push_back({entry.name, entry.slot->main.clone()});
  return state;
}

void Window::load(const WindowState& state) {
  if (open_)
    throw usage_error("load", "no open window", where(), "calling close() or discard() before it");
  std::vector<const Entry*> targets;
  for (const NamedParameter& sum : state.sums) {
    const auto entry = std::ranges::find(buffer_->entries(), sum.name, &Entry::name);
    if (entry == buffer_->entries().end() || !sum.tensor.defined() ||
        entry->slot->main.sizes() != sum.tensor.sizes() ||
        entry->slot->main.scalar_type() != sum.tensor.scalar_type())
      throw usage_error("load", "sums that fit the parameters by name, shape and dtype",
                        "'" + sum.name + "', which does not",
                        "loading into the model that the state was saved from");
    targets.push_back(&*entry);
  }
  if (state.open) open(state.index);
  index_ = state.index;
  entries_ = state.entries;
  lost_ = state.lost;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    targets[i]->slot->main.copy_(state.sums[i].tensor);
    targets[i]->slot->done();
    bind(*targets[i]);
  }
}

}  // namespace accrue::accum
