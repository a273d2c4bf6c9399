#include <algorithm>

#include "accrue/accum/window.h"
#include "accrue/core/error.h"
#include "accum/slot_binding.h"

namespace accrue::accum {
namespace {

using Entry = GradientBuffer::Entry;

/// What somebody else did to a parameter between our micro-batches, the worst last.
enum class Disturbance { none, stray, detached, written, stepped };

Disturbance disturbance(const Entry& entry, std::int64_t parameter_version) {
  if (entry.parameter._version() != parameter_version) return Disturbance::stepped;
  const at::Tensor& grad = entry.parameter.grad();
  if (!shows_sum(entry)) return grad.defined() ? Disturbance::stray : Disturbance::none;
  if (entry.slot->bound._version() != entry.slot->bound_version) return Disturbance::written;
  return grad.is_same(entry.slot->bound) ? Disturbance::none : Disturbance::detached;
}

struct Diagnosis {
  const char* received;
  const char* suggestion;
};

Diagnosis diagnosis(Disturbance what) {
  switch (what) {
    case Disturbance::stepped:
      return {"a changed parameter, as by step() of an optimizer:",
              "calling step() only with a closed window (Accumulator::step does both), and an "
              "embedding's max_norm behind it; this window is lost"};
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
