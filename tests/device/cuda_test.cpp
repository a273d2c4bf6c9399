// What only a GPU can show: the list of what no other machine's tests cover.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <optional>
#include <set>

#include "accrue/core/error.h"
#include "accrue/device/device.h"
#include "accrue/kernels/kernel_choice.h"
#include "accrue/memory/caching_allocator.h"
#include "memory/retries.h"
#include "support/skip.h"
#include "train/plan/setup.h"
#include "train/ranks/alone.h"
#include "train/run/make_runner.h"
#include "train/run/run_window.h"
#include "train/tiny_run.h"
#include "train/workload/workload.h"
#include "verify/config/against_cpu.h"
#include "verify/operations/device_conformance.h"

namespace accrue::train {
namespace {

using kernels::Kernels;

std::optional<c10::Device> gpu() {
  try {
    return device::open("cuda");
  } catch (const Error&) {
    return std::nullopt;
  }
}

constexpr const char* no_gpu = "there is no CUDA device, or this libtorch has no part for one";

/// A window of a config's model as training runs it on its device.
class WindowOnDevice {
 public:
  explicit WindowOnDevice(const Config& config)
      : work_((use_resources(config), open_workload(config))),
        loader_(work_.data.train, make_sampler(work_.config, *work_.data.train)) {}

  /// The mean gradient of the first window, in micro-batches of `micro`, on the CPU.
  std::vector<at::Tensor> gradient(std::int64_t micro) {
    accum::Window window(make_gradient_buffer(work_.config, *work_.model));
    memory::Recovery recovery({.planned = micro, .micro_batch = micro});
    memory::Retries retries(&recovery);
    Alone alone;
    RunLog log;
    RunControl control;
    const std::unique_ptr<Runner> runner = make_runner(
        work_.config, {*work_.model, window, loader_, work_.config.run.seed, log, control, retries},
        {});
    WindowRun run = run_window({window, *runner, alone, retries, log},
                               WindowRequest::even(0, work_.schedule.window(0), micro));
    out_of_memory = run.out_of_memory;
    std::vector<at::Tensor> mean;
    for (std::size_t i = 0; i < window.buffer()->entries().size(); ++i)
      mean.push_back((run.gradient->source(i).tensor * run.gradient->scale()).cpu());
    return mean;
  }
  std::int64_t samples() const { return work_.schedule.window(0).size(); }

  std::int64_t out_of_memory = 0;  ///< in the last window

 private:
  Workload work_;
  data::Loader loader_;
};

class Cuda : public testing::TinyRun {
 protected:
  void SetUp() override {
    TinyRun::SetUp();
    if (!gpu()) accrue::testing::not_possible_here(no_gpu);
  }
  void TearDown() override {
    memory::count_device(c10::kCPU);
    TinyRun::TearDown();
  }

  Config on_gpu(const std::string& out = "run") const {
    Config c = config(out);
    c.run.device = Device::cuda;
    c.model.dropout = 0.1;
    return c;
  }
  Config wide(std::int64_t samples) const {
    Config c = on_gpu();
    c.model.width = 256;
    c.model.heads = 4;
    c.model.context = 256;
    c.batch = {};
    c.batch.samples = samples;
    return c;
  }
};

double relative_error(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]).to(at::kDouble).square().sum().item<double>();
    size += b[i].to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(difference / size);
}

TEST_F(Cuda, DoesWhatTrainingAsksByCompiledKernelsAndByAten) {
  for (const Kernels kernels : {Kernels::native, Kernels::generic}) {
    const kernels::KernelScope scope(kernels);
    for (const proof::DeviceCheck& check : proof::check_device(*gpu()))
      EXPECT_TRUE(check.passed) << check.name << ": " << check.detail
                                << (kernels == Kernels::native ? "" : ", by ATen alone");
  }
}

TEST_F(Cuda, AddsUpTheGradientOfFp64OnTheCpu) {
  using models::Compute;
  for (const Compute compute : {Compute::fp32, Compute::bf16, Compute::fp16})
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
      Config c = on_gpu();
      c.model.kind = kind;
      c.precision.compute = compute;
      const proof::Report report = proof::verify_against_cpu(c);
      EXPECT_TRUE(report.equal) << to_string(compute) << ' ' << to_string(kind) << ": "
                                << proof::conclusion(report);
    }
}

TEST_F(Cuda, RunsAndResumesToTheBit) {
  using optim::StatePrecision;
  for (const StatePrecision state :
       {StatePrecision::fp32, StatePrecision::bf16, StatePrecision::int8})
    for (const models::Compute compute : {models::Compute::bf16, models::Compute::fp16}) {
      const std::string name = std::string(to_string(state)) + std::string(to_string(compute));
      Config whole = on_gpu("whole" + name), parts = on_gpu("parts" + name);
      for (Config* c : {&whole, &parts}) {
        c->optim.schedule.kind = optim::ScheduleKind::constant;
        c->optim.state = state;
        c->precision.compute = compute;
      }
      Trainer(whole).run();
      Config first = parts;
      first.run.steps = 3;
      Trainer(first).run();
      Trainer(parts).run({.resume = true});
      expect_same_bits(parameters_of(whole), parameters_of(parts));
    }
}

TEST_F(Cuda, TakesNoMoreMemoryForMoreMicroBatches) {
  constexpr std::int64_t micro = 4;
  const auto peak_of = [&](std::int64_t micro_batches) {
    WindowOnDevice window(wide(micro * micro_batches));
    window.gradient(micro);
    const memory::PeakScope peak;
    window.gradient(micro);
    return static_cast<double>(peak.peak().live);
  };
  EXPECT_LE(peak_of(64) / peak_of(1), 1.001);
}

/// What the host waits for while `work` runs, as the runtime's interface tells.
std::int64_t waits_in(const std::function<void()>& work) {
  namespace profiler = torch::autograd::profiler;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<torch::profiler::impl::ActivityType> activities{
      torch::profiler::impl::ActivityType::CPU, torch::profiler::impl::ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  work();
  const auto result = profiler::disableProfiler();
  std::int64_t waits = 0;
  for (const auto& event : result->events())
    waits += event.name().find("Synchronize") != std::string::npos ? 1 : 0;
  return waits;
}

TEST_F(Cuda, WaitsForNothingInsideAWindow) {
  WindowOnDevice few(wide(4 * 4)), many(wide(4 * 16));
  few.gradient(4);
  many.gradient(4);
  EXPECT_EQ(waits_in([&] { few.gradient(4); }), waits_in([&] { many.gradient(4); }));
}

/// Memory that somebody else has, so that a window's own runs out: what is left grows from little
/// to enough. The gradient is that of a window that was split so from the start, but for rounding.
TEST_F(Cuda, SurvivesTwoHundredAllocationsThatFail) {
  constexpr std::int64_t wanted = 200, samples = 48, mebibyte = 1 << 20;
  WindowOnDevice window(wide(samples));
  const std::vector<at::Tensor> undisturbed = window.gradient(samples);
  memory::release_cached();
  const std::int64_t room = memory::device_room()->free;
  const memory::PeakScope peak;
  window.gradient(samples);
  const std::int64_t needed = peak.peak().live;
  std::int64_t failed = 0, windows = 0;
  while (failed < wanted && windows < 10 * wanted) {
    memory::release_cached();
    const std::int64_t left = needed / 4 + needed * (windows % 13) / 20;
    const at::Tensor others = at::empty({(room - left) / mebibyte, mebibyte},
                                        at::TensorOptions(at::kByte).device(*gpu()));
    const double error = relative_error(window.gradient(samples), undisturbed);
    ASSERT_LE(error, 1e-5) << "window " << windows << ", " << left << " bytes left";
    failed += window.out_of_memory;
    ++windows;
  }
  EXPECT_GE(failed, wanted) << "in " << windows << " windows";
}

TEST_F(Cuda, RefusesADeviceThatIsNotThereAndABudgetAboveItsMemory) {
  EXPECT_THROW(device::open("cuda:99"), Error);
  Config c = on_gpu();
  c.memory.budget = "100000GiB";
  try {
    Trainer trainer(c);
    trainer.run();
    ADD_FAILURE() << "it trains";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the device's"));
  }
}

}  // namespace
}  // namespace accrue::train
