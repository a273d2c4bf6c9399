#include "accrue/device/recording.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <string>

#include "accrue/core/error.h"
#include "accrue/device/device.h"
#include "core/loaded_libraries.h"
#include "device/recorder.h"

// Libtorch has it since 2.12.
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
  void repeat() override { graph_.replay(); }

 private:
  at::accelerator::Graph graph_;
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

MakeRecorder load_cuda_recorder() {
  const auto file = own_library(kGraphsLibrary);
  if (!file)
    throw refused("a build with CUDA graphs", std::string("one without ") + kGraphsLibrary);
  void* const opened = dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) throw refused(file->string() + " with all that it needs", dlerror());
  void* const make = dlsym(opened, kMakeCudaRecorder);
  if (make == nullptr) throw refused("the library of this version", dlerror());
  return reinterpret_cast<MakeRecorder>(make);
}

std::unique_ptr<Recorder> make_recorder(c10::Device device) {
  if (!can_record(device)) throw refused("a device that can be recorded", device.str());
  if (!device.is_cuda()) return make_torch_recorder();
  std::unique_ptr<Recorder> made;
  load_cuda_recorder()(made);
  return made;
}

void finish(Recorder& recorder) {
  try {
    recorder.end();
  } catch (const std::exception& error) {
    throw runtime_error("record work of a device", "work that can be recorded", error.what(),
                        "run.graphs = false, with --resume");
  }
}

}  // namespace

bool can_record(c10::Device device) {
  if (device.is_cuda()) return own_library(kGraphsLibrary).has_value();
  return has_torch_recorder(device.type());
}

Recording::Recording(c10::Device device, const std::function<void()>& work,
                     const Recording* shares_memory_of)
    : recorder_(make_recorder(device)) {
  synchronize(device);
  const c10::StreamGuard own_stream(
      c10::impl::getDeviceGuardImpl(device.type())->getNewStream(device));
  recorder_->begin(shares_memory_of == nullptr ? nullptr : shares_memory_of->recorder_.get());
  try {
    work();
  } catch (...) {
    finish(*recorder_);
    throw;
  }
  finish(*recorder_);
}

Recording::~Recording() = default;

void Recording::repeat() { recorder_->repeat(); }

}  // namespace accrue::device
