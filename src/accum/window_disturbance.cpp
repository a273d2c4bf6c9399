#include <algorithm>

#include "accrue/accum/window.h"
#include "accrue/core/error.h"
#include "accum/content_watch.h"
#include "accum/slot_binding.h"

namespace accrue::accum {
namespace {

using Entry = GradientBuffer::Entry;

/// The change that other code made to a parameter between micro-batches, the worst last.
enum class Disturbance { none, stray, detached, written, added, stepped, converted };

/// Whether a backward outside the micro-batches caused `otherwise`.
Disturbance unless_passed_by(const Entry& entry, Disturbance by_backward, Disturbance otherwise) {
  return entry.slot->passed_by ? by_backward : otherwise;
}

Disturbance disturbance(const Entry& entry, std::int64_t parameter_version) {
  if (entry.parameter._version() != parameter_version) return Disturbance::stepped;
  const at::Tensor& grad = entry.parameter.grad();
  if (!shows_sum(entry)) return grad.defined() ? Disturbance::stray : Disturbance::none;
  if (entry.slot->bound._version() != entry.slot->bound_version)
    return unless_passed_by(entry, Disturbance::added, Disturbance::written);
  if (grad.is_same(entry.slot->bound)) return Disturbance::none;
  return unless_passed_by(entry, Disturbance::stray, Disturbance::detached);
}

Disturbance disturbance(const Entry& entry, const ContentWatch& contents, std::size_t index) {
  if (contents.parameter_changed(index)) return Disturbance::stepped;
  return shows_sum(entry) && contents.sum_changed(index) ? Disturbance::written : Disturbance::none;
}

struct Diagnosis {
  const char* received;
  const char* suggestion;
};

Diagnosis diagnosis(Disturbance what) {
  switch (what) {
    case Disturbance::converted:
      return {"a parameter that was moved or converted:",
              "model->to(...) before the Accumulator or Stepper is made; this window is lost"};
    case Disturbance::stepped:
      return {"a changed parameter, as by step() of an optimizer:",
              "calling step() only with a closed window (Accumulator::step does both), and an "
              "embedding's max_norm behind it; where forward() itself writes the model's weights, "
              "watch_parameters = false; this window is lost"};
    case Disturbance::added:
      return {"a gradient that a plain backward() outside the window's micro-batches added to:",
              "Accumulator::backward(Loss{sum, weight}) in the place of loss.backward(); this "
              "window is lost"};
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
  return {"a gradient from a plain backward() outside the window's micro-batches:",
          "Accumulator::backward(Loss{sum, weight}) in the place of loss.backward(); the sums are "
          "intact and the window goes on"};
}

}  // namespace

void Window::see_parameter_versions() {
  parameter_versions_.clear();
  for (const Entry& entry : buffer_->entries())
    parameter_versions_.push_back(entry.parameter._version());
}

void Window::check_undisturbed(const char* call, bool waits_for_device) {
  Disturbance worst = Disturbance::none;
  std::string name;
  const auto take = [&](std::size_t index, Disturbance what) {
    if (what <= worst) return;
    worst = what;
    const std::string converted = buffer_->conversion(index);
    name = converted.empty() ? "'" + buffer_->entries()[index].name + "'" : converted;
  };
  for (std::size_t i = 0; i < parameter_versions_.size(); ++i) {
    const Entry& entry = buffer_->entries()[i];
    if (!buffer_->conversion(i).empty()) {
      take(i, Disturbance::converted);
      continue;
    }
    const bool may_change = watch_ == Watch::sums;
    take(i, disturbance(entry, may_change ? entry.parameter._version() : parameter_versions_[i]));
    if (contents_) take(i, disturbance(entry, *contents_, i));
  }
  if (contents_ && worst != Disturbance::converted) {
    contents_->compare_sums_on_device();
    if (waits_for_device && !lost_)
      for (const ContentWatch::Found& found : contents_->found_on_device())
        take(found.index, found.is_parameter ? Disturbance::stepped : Disturbance::written);
  }
  if (worst == Disturbance::none) return;

  const Diagnosis text = diagnosis(worst);
  const std::string received = std::string(text.received) + " " + name;
  const bool is_lost = worst >= Disturbance::written;
  if (is_lost) lose(received);
  see_parameter_versions();
  for (const Entry& entry : buffer_->entries()) {
    entry.slot->bound_version = entry.slot->bound._version();
    entry.slot->passed_by = false;
    bind(entry);
  }
  // If the window continues, what was seen on a device must still be reported.
  if (contents_ && is_lost && worst != Disturbance::converted) contents_->see_all();
  throw usage_error(std::string(call) + " (" + where() + ")",
                    "parameters and gradients left alone while the window is open", received,
                    text.suggestion);
}

void Window::check_arrived() const {
  for (const Entry& entry : buffer_->entries()) {
    if (entry.slot->unfinished)
      throw usage_error("commit (" + where() + ")", "passes that came to their end",
                        "one that failed while it added to the gradient of '" + entry.name + "'",
                        "abort() where a forward or backward pass throws");
    const at::Tensor& grad = entry.parameter.grad();
    if (grad.defined() && !(shows_sum(entry) && grad.is_alias_of(entry.slot->main)))
      throw usage_error("commit (" + where() + ")", "every gradient in its slot",
                        "one elsewhere, in '.grad' of '" + entry.name + "'",
                        "removing other post-accumulate-gradient hooks, and backward() without "
                        "create_graph");
  }
}

}  // namespace accrue::accum
