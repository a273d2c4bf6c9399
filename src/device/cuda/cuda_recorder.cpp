// The contents of libaccrue_graphs.so: CUDA graphs of libtorch.
#include <ATen/cuda/CUDAGraph.h>

#include "device/recorder.h"

namespace accrue::device {
namespace {

class CudaRecorder final : public Recorder {
 public:
  void begin(const Recorder* shares_memory_of) override {
    const auto* const other = static_cast<const CudaRecorder*>(shares_memory_of);
    const c10::MempoolId_t pool = other == nullptr ? c10::MempoolId_t{0, 0} : other->pool_;
    // This thread may allocate pinned memory meanwhile, and others may continue.
    graph_.capture_begin(pool, cudaStreamCaptureModeRelaxed);
  }
  void end() override {
    graph_.capture_end();
    pool_ = graph_.pool();
  }
  void prepare() override { graph_.instantiate(); }
  void repeat() override { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_{/*keep_graph=*/true};
  c10::MempoolId_t pool_{0, 0};
};

}  // namespace
}  // namespace accrue::device

extern "C" __attribute__((visibility("default"))) void accrue_make_cuda_recorder(
    std::unique_ptr<accrue::device::Recorder>& made) {
  made = std::make_unique<accrue::device::CudaRecorder>();
}
