#include "accrue/device/recording.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <string>

#include "accrue/core/error.h"
#include "accrue/device/device.h"
#include "core/exception_text.h"
#include "core/loaded_libraries.h"
#include "device/recorder.h"

// Available in libtorch since 2.12.
#if __has_include(<ATen/accelerator/Graph.h>)
#include <ATen/accelerator/Graph.h>
#define ACCRUE_HAS_TORCH_GRAPHS 1
#else
#define ACCRUE_HAS_TORCH_GRAPHS 0
#endif

namespace accrue::device {
namespace {

#if ACCRUE_HAS_TORCH_GRAPHS

class TorchRecorder final : public Recorder {
 public:
  void begin(const Recorder* shares_memory_of) override {
    const auto* const other = static_cast<const TorchRecorder*>(shares_memory_of);
    graph_.capture_begin(other == nullptr ? c10::MempoolId_t{0, 0} : other->graph_.pool(),
                         at::GraphCaptureMode::Relaxed);
  }
  void end() override { graph_.capture_end(); }
  void prepare() override { graph_.instantiate(); }
  void repeat() override { graph_.replay(); }

 private:
  at::accelerator::Graph graph_{/*keep_graph=*/true};
};

bool has_torch_recorder(c10::DeviceType type) { return at::has_graph_impl(type); }
std::unique_ptr<Recorder> make_torch_recorder() { return std::make_unique<TorchRecorder>(); }

#else

bool has_torch_recorder(c10::DeviceType /*type*/) { return false; }
std::unique_ptr<Recorder> make_torch_recorder() { return nullptr; }

#endif

Error refused(const std::string& expected, const std::string& received) {
  return usage_error("record work of a device", expected, received,
                     "a build where CUDA's headers are (docs/guide/gpu.md)");
}

std::unique_ptr<Recorder> make_recorder(c10::Device device) {
  if (device.is_cuda()) {
    const auto make = reinterpret_cast<MakeRecorder>(
        own_function(kGraphsLibrary, "CUDA graphs", kMakeCudaRecorder, refused));
    std::unique_ptr<Recorder> made;
    make(made);
    return made;
  }
  if (!has_torch_recorder(device.type()))
    throw refused("a device that can be recorded", device.str());
  return make_torch_recorder();
}

/// Calls a step of a recording after which, if it throws, nothing can be relied on.
template <class Step>
void require(const std::string& cause, const Step& step) {
  try {
    step();
  } catch (const std::exception& error) {
    throw runtime_error("record work of a device", "work that can be recorded",
                        (cause.empty() ? "" : cause + "; then ") + text_of(error),
                        "run.graphs = false, with --resume");
  }
}

/// Calls `work` between the beginning and the end of a recording.
void record(Recorder& recorder, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    require(text_of(error), [&] { recorder.end(); });
    throw;
  }
  require("", [&] { recorder.end(); });
}

}  // namespace

void expect_recordable(c10::Device device) { make_recorder(device); }

bool can_record(c10::Device device) {
  try {
    expect_recordable(device);
    return true;
  } catch (const Error&) {
    return false;
  }
}

c10::Stream new_stream(c10::Device device) {
  return c10::impl::getDeviceGuardImpl(device.type())->getNewStream(device);
}

Recording::Recording(c10::Stream stream, const std::function<void()>& work,
                     const Recording* shares_memory_of)
    : recorder_(make_recorder(stream.device())) {
  synchronize(stream.device());
  // Memory that libtorch has cached for other passes must not be used for recordings.
  c10::getDeviceAllocator(stream.device_type())->emptyCache();
  const c10::StreamGuard on_stream(stream);
  const Recorder* const other =
      shares_memory_of == nullptr ? nullptr : shares_memory_of->recorder_.get();
  require("", [&] { recorder_->begin(other); });
  record(*recorder_, work);
  recorder_->prepare();
}

Recording::~Recording() = default;

void Recording::repeat() { recorder_->repeat(); }

}  // namespace accrue::device
