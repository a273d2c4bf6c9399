#include "accrue/device/recording.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "accrue/core/error.h"
#include "accrue/device/device.h"

#if __has_include(<ATen/accelerator/Graph.h>)
#include <ATen/accelerator/Graph.h>
#define ACCRUE_HAS_RECORDINGS 1
#else
#define ACCRUE_HAS_RECORDINGS 0
#endif

namespace accrue::device {

void use_own_stream(c10::Device device) {
  const auto* const streams = c10::impl::getDeviceGuardImpl(device.type());
  synchronize(device);
  streams->exchangeStream(streams->getNewStream(device));
}

#if ACCRUE_HAS_RECORDINGS

bool can_record(c10::Device device) { return at::has_graph_impl(device.type()); }

struct Recording::Impl {
  at::accelerator::Graph graph;
};

Recording::Recording(c10::Device device, const std::function<void()>& work,
                     const Recording* shares_memory_of)
    : impl_(std::make_unique<Impl>()) {
  if (!can_record(device))
    throw usage_error("record work", "a device whose work can be recorded", device.str(),
                      "asking can_record()");
  at::accelerator::Graph& graph = impl_->graph;
  const c10::MempoolId_t pool =
      shares_memory_of == nullptr ? c10::MempoolId_t{0, 0} : shares_memory_of->impl_->graph.pool();
  // This thread may allocate pinned memory, and others may go on as they like.
  graph.capture_begin(pool, at::GraphCaptureMode::Relaxed);
  try {
    work();
  } catch (...) {
    try {
      graph.capture_end();
    } catch (const std::exception&) {
      // What made the work fail is what counts.
    }
    throw;
  }
  graph.capture_end();
}

Recording::~Recording() = default;

void Recording::repeat() { impl_->graph.replay(); }

#else

bool can_record(c10::Device /*device*/) { return false; }

struct Recording::Impl {};

Recording::Recording(c10::Device device, const std::function<void()>& /*work*/,
                     const Recording* /*shares_memory_of*/) {
  throw usage_error("record work", "libtorch 2.13 or a newer one",
                    "an older one, on " + device.str(), "asking can_record()");
}

Recording::~Recording() = default;

void Recording::repeat() {}

#endif

}  // namespace accrue::device
