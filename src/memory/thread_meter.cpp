#include "memory/thread_meter.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <algorithm>
#include <atomic>

namespace accrue::memory {

struct ThreadMeter::Impl {
  /// libtorch's Python functions (torch.autograd.Function) ask the object in this place for a
  /// profiler's configuration, so it is the state of a profiler that is off.
  class Reporter : public torch::profiler::impl::ProfilerStateBase {
   public:
    Reporter()
        : ProfilerStateBase(torch::profiler::impl::ProfilerConfig(
              torch::profiler::impl::ProfilerState::Disabled)) {}
    torch::profiler::impl::ActiveProfilerType profilerType() override {
      return torch::profiler::impl::ActiveProfilerType::NONE;
    }
    void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t,
                           c10::Device device) override {
      if (!device.is_cpu()) return;
      const std::int64_t now = live_ += bytes;
      std::int64_t seen = peak_;
      while (now > seen && !peak_.compare_exchange_weak(seen, now)) {
      }
    }
    bool memoryProfilingEnabled() const override { return true; }
    std::int64_t live() const { return live_; }
    std::int64_t peak() const { return peak_; }

   private:
    std::atomic<std::int64_t> live_{0};
    std::atomic<std::int64_t> peak_{0};
  };

  std::shared_ptr<Reporter> reporter = std::make_shared<Reporter>();
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, reporter};
};

ThreadMeter::ThreadMeter() : impl_(std::make_unique<Impl>()) {}
ThreadMeter::~ThreadMeter() = default;

std::int64_t ThreadMeter::live() const { return impl_->reporter->live(); }
std::int64_t ThreadMeter::peak() const { return impl_->reporter->peak(); }

}  // namespace accrue::memory
