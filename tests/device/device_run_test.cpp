// Training on a device. Each program that has this file runs it on one (tested_device.h): a GPU, or
// the device that needs none.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "accrue/core/error.h"
#include "accrue/device/device.h"
#include "accrue/memory/caching_allocator.h"
#include "device/on_device.h"
#include "memory/retries.h"
#include "train/plan/setup.h"
#include "train/ranks/single_process.h"
#include "train/run/make_runner.h"
#include "train/run/run_window.h"
#include "train/window/layered/activation_store.h"
#include "train/workload/workload.h"
#include "verify/config/against_cpu.h"
#include "verify/configs_to_verify.h"

namespace accrue::train {
namespace {

using accrue::testing::open_tested_device;
using accrue::testing::tested_device;
using accrue::testing::waits_in;
using testing::OnDevice;
using testing::WithDevice;

/// A window of a config's model, run on its device as in training.
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
    SingleProcess alone;
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

double relative_error(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]).to(at::kDouble).square().sum().item<double>();
    size += b[i].to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(difference / size);
}

TEST_F(OnDevice, AddsUpTheGradientOfFp64OnTheCpu) {
  using models::Compute;
  for (const Compute compute : {Compute::fp32, Compute::bf16, Compute::fp16})
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
      Config c = on_device();
      c.model.kind = kind;
      c.precision.compute = compute;
      const proof::Report report = proof::verify_against_cpu(c);
      EXPECT_TRUE(report.equal) << to_string(compute) << ' ' << to_string(kind) << ": "
                                << proof::conclusion(report);
    }
}

using ImagesOnDevice = WithDevice<proof::testing::ConfigsToVerify>;

TEST_F(ImagesOnDevice, AddUpTheGradientOfFp64OnTheCpu) {
  using models::BatchNormPolicy;
  for (const BatchNormPolicy policy : {BatchNormPolicy::exact, BatchNormPolicy::convert_group}) {
    Config c = of_resnet(policy);
    c.run.device = device_words.find(tested_device().word);
    const proof::Report report = proof::verify_against_cpu(c);
    EXPECT_TRUE(report.equal) << to_string(policy) << ": " << proof::conclusion(report);
  }
}

TEST_F(OnDevice, RunsAndResumesToTheBit) {
  using optim::StatePrecision;
  for (const StatePrecision state :
       {StatePrecision::fp32, StatePrecision::bf16, StatePrecision::int8})
    for (const models::Compute compute : {models::Compute::bf16, models::Compute::fp16}) {
      const std::string name = std::string(to_string(state)) + std::string(to_string(compute));
      Config whole = on_device("whole" + name), parts = on_device("parts" + name);
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

TEST_F(OnDevice, KeepsActivationsInAFileOfTheHost) {
  const at::Tensor there =
      at::arange(12, at::TensorOptions(*open_tested_device())).view({3, 4}).t();
  ActivationStore store(folder_);
  const at::Tensor back = store.keep(there).tensor();
  EXPECT_EQ(back.device(), there.device());
  EXPECT_TRUE(at::equal(back.cpu(), there.cpu()));
}

TEST_F(OnDevice, TakesNoMoreMemoryForMoreMicroBatches) {
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

TEST_F(OnDevice, WaitsForNothingInsideAWindow) {
  WindowOnDevice few(wide(4 * 4)), many(wide(4 * 16));
  few.gradient(4);
  many.gradient(4);
  EXPECT_EQ(waits_in([&] { few.gradient(4); }), waits_in([&] { many.gradient(4); }));
}

/// Other code holds memory, so that a window runs out of it: the rest grows from little to enough.
/// The gradient is that of a window that was split like this from the start, except for rounding.
TEST_F(OnDevice, SurvivesAllocationsThatFail) {
  const std::int64_t wanted = tested_device().failures;
  constexpr std::int64_t samples = 48, mebibyte = 1 << 20;
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
                                        at::TensorOptions(at::kByte).device(*open_tested_device()));
    const double error = relative_error(window.gradient(samples), undisturbed);
    ASSERT_LE(error, 1e-5) << "window " << windows << ", " << left << " bytes left";
    failed += window.out_of_memory;
    ++windows;
  }
  EXPECT_GE(failed, wanted) << "in " << windows << " windows";
}

TEST_F(OnDevice, RefusesADeviceThatIsNotThereAndABudgetAboveItsMemory) {
  EXPECT_THROW(device::open(std::string(tested_device().word) + ":99"), Error);
  Config c = on_device();
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
