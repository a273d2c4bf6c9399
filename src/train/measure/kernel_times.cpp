#include "train/measure/kernel_times.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "accrue/core/clock.h"
#include "train/measure/kernel_names.h"

namespace accrue::train {
namespace {

constexpr std::string_view kOwn = "accrue::";

// RecordFunction's callbacks are plain functions: this is how they find the object.
thread_local KernelTimes* listening = nullptr;

bool is_own(const at::RecordFunction& function) {
  return std::string_view(function.name()).starts_with(kOwn);
}

}  // namespace

struct KernelTimes::Span : at::ObserverContext {
  Span(const at::RecordFunction& function, double callers) : in_callee_of_caller(callers) {
    // ATen's operators have sizes among their integers, and views that touch no bytes.
    if (!is_own(function)) return;
    for (const c10::IValue& value : function.inputs()) {
      if (value.isTensor())
        bytes += static_cast<std::int64_t>(value.toTensor().nbytes());
      else if (value.isInt())
        flops += value.toInt();
    }
  }

  double in_callee_of_caller;
  std::int64_t bytes = 0, flops = 0;
  Stopwatch watch;
};

KernelTimes::KernelTimes()
    : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end)
                                             .needsInputs(true)
                                             .scopes({at::RecordScope::FUNCTION}))) {
  listening = this;
}

KernelTimes::~KernelTimes() {
  at::removeCallback(handle_);
  listening = nullptr;
}

/// Reads the kernel's own statements, which exist only now.
std::unique_ptr<at::ObserverContext> KernelTimes::begin(const at::RecordFunction& function) {
  return std::make_unique<Span>(function, std::exchange(listening->in_callee_, 0));
}

void KernelTimes::end(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto* span = static_cast<const Span*>(context);
  const double seconds = span->watch.seconds();
  const std::string_view name = function.name();
  const std::string kernel =
      is_own(function) ? std::string(name.substr(kOwn.size())) : readable_kernel(name);
  const bool in_backward = torch::autograd::get_current_graph_task_id() >= 0;
  KernelTime& time = listening->times_[{kernel, in_backward}];
  time.kernel = kernel;
  time.in_backward = in_backward;
  ++time.calls;
  time.seconds += seconds - listening->in_callee_;
  time.bytes += span->bytes;
  time.flops += span->flops;
  listening->in_callee_ = span->in_callee_of_caller + seconds;
}

std::vector<KernelTime> KernelTimes::by_time() const {
  std::vector<KernelTime> times;
  for (const auto& [key, time] : times_) times.push_back(time);
  std::ranges::sort(times, [](const KernelTime& a, const KernelTime& b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.kernel < b.kernel;
  });
  return times;
}

}  // namespace accrue::train
