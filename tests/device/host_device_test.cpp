// What is written for a GPU, on a second device of torch's that needs none (host_device.h).
#include "device/host_device.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/library.h>

#include <fstream>

#include "accrue/core/error.h"
#include "accrue/device/device.h"
#include "device/tested_device.h"
#include "support/errors.h"
#include "support/run_program.h"
#include "train/ranks/rank_conflicts.h"
#include "train/tiny_run.h"
#include "verify/operations/device_conformance.h"

namespace accrue::testing {

TestedDevice tested_device() {
  return {.word = kHostDevice, .width = 64, .context = 64, .failures = 20};
}

std::optional<c10::Device> open_tested_device() { return device::open(kHostDevice); }

std::int64_t waits_in(const std::function<void()>& work) {
  const std::int64_t before = waits_for_host_device();
  work();
  return waits_for_host_device() - before;
}

namespace {

/// Up to the rounding of attention, of which the CPU has another formula.
void expect_close(const NamedParameters& a, const NamedParameters& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::allclose(a[i].tensor, b[i].tensor, 0, 1e-5)) << a[i].name;
}

using proof::check_device;
using proof::DeviceCheck;
using proof::expect_trainable;
using ::testing::HasSubstr;

TEST(HostDevice, DoesWhatTrainingAsks) {
  const c10::Device device = device::open(kHostDevice);
  for (const DeviceCheck& check : check_device(device))
    EXPECT_TRUE(check.passed) << check.name << ": " << check.detail;
  EXPECT_NO_THROW(expect_trainable(device));
}

void refuse(const c10::OperatorHandle& operation, torch::jit::Stack* /*stack*/) {
  throw usage_error(operation.schema().name(), "an operation that is there", "none", "another");
}

TEST(HostDevice, IsRefusedWithoutOneOfTheOperations) {
  torch::Library without(torch::Library::IMPL, "aten", c10::DispatchKey::HPU, __FILE__, __LINE__);
  without.impl("addmm.out", torch::CppFunction::makeFromBoxedFunction<&refuse>());
  const std::string refusal = usage_message([&] { expect_trainable(device::open(kHostDevice)); });
  EXPECT_THAT(refusal, HasSubstr("run.device = \"hpu\""));
  EXPECT_THAT(refusal, HasSubstr("accrue doctor --device=hpu"));
}

TEST(HostDevice, TellsWhatIsWaitedFor) {
  const at::Tensor there = at::ones({2}, at::TensorOptions(device::open(kHostDevice)));
  EXPECT_EQ(waits_in([&] { there.add(1).mul_(2); }), 0);
  EXPECT_EQ(waits_in([&] { there.sum().item<float>(); }), 1);
  EXPECT_EQ(waits_in([&] { there.cpu(); }), 1);
}

/// The control: a pass over the device's memory by the host is noticed.
TEST(HostDeviceDeathTest, IsClosedToTheHost) {
  const at::Tensor there = at::ones({100}, at::TensorOptions(device::open(kHostDevice)));
  EXPECT_EXIT(*static_cast<volatile float*>(there.mutable_data_ptr()),
              ::testing::KilledBySignal(SIGSEGV), "");
}

using HostDeviceRun = train::testing::TinyRun;

/// The library of a device comes to the program from outside.
TEST_F(HostDeviceRun, IsWhatTheProgramTrainsOn) {
  std::ofstream(folder_ / "run.toml")
      << "[run]\nout = \"out\"\nsteps = 3\n[model]\nlayers = 1\n"
         "width = 32\nheads = 2\ncontext = 16\n[data]\n"
         "train = [\"text.txt\"]\n[batch]\ntokens = 64\nmicro = 2\n";
  const auto trained = [&](const std::string& device, const std::vector<std::string>& more) {
    std::vector<std::string> words{"/usr/bin/env",
                                   "LD_PRELOAD=" ACCRUE_HOST_DEVICE,
                                   ACCRUE_PROGRAM,
                                   "train",
                                   "run.toml",
                                   "--run.out=" + device,
                                   "--run.device=" + device};
    words.insert(words.end(), more.begin(), more.end());
    return Program(folder_, words).wait();
  };
  const auto on_device = trained(kHostDevice, {});
  ASSERT_EQ(on_device.status, 0) << on_device.errors;
  ASSERT_EQ(trained("cpu", {"--run.kernels=generic"}).status, 0);
  train::Config there = config(kHostDevice), here = config("cpu");
  expect_close(parameters_of(there), parameters_of(here));
}

TEST(HostDevice, IsForOneProcess) {
  const auto conflict = train::conflict_of({}, 2, device::open(kHostDevice));
  ASSERT_TRUE(conflict.has_value());
  EXPECT_EQ(conflict->key, "run.device");
}

}  // namespace
}  // namespace accrue::testing
