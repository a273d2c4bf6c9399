#include "memory/thread_meter.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>

namespace accrue::memory {

struct ThreadMeter::Impl {
  class Reporter : public c10::MemoryReportingInfoBase {
   public:
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
