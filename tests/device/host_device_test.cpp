// Code written for a GPU, on a second device of torch's that needs none (host_device.h).
#include "device/host_device.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/library.h>

#include <fstream>

#include "accrue/core/error.h"
#include "accrue/device/device.h"
#include "accrue/device/recording.h"
#include "device/tested_device.h"
#include "support/errors.h"
#include "support/run_program.h"
#include "support/skip.h"
#include "support/tolerance.h"
#include "train/tiny_run.h"
#include "verify/operations/device_conformance.h"

namespace accrue::testing {

TestedDevice tested_device() {
  return {.word = kHostDevice, .width = 64, .context = 64, .failures = 20};
}

std::optional<c10::Device> open_tested_device() { return device::open(kHostDevice); }

/// A copy from memory that is not pinned waits as well.
std::int64_t waits_in(const std::function<void()>& work) {
  const std::int64_t before = waits_for_host_device() + pageable_copies_to_host_device();
  work();
  return waits_for_host_device() + pageable_copies_to_host_device() - before;
}

namespace {

/// Attention has another formula on the CPU, which rounds differently, once for each product.
void expect_close(const NamedParameters& a, const NamedParameters& b) {
  constexpr std::int64_t terms = 64 * 32;  // for a gradient: tokens, and the width before them
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_LE(relative_error(a[i].tensor, b[i].tensor), tolerance(at::kFloat).bound(terms))
        << a[i].name;
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

TEST(HostDevice, TellsWhatIsWaitedFor) {
  const at::Tensor there = at::ones({2}, at::TensorOptions(device::open(kHostDevice)));
  EXPECT_EQ(waits_in([&] { there.add(1).mul_(2); }), 0);
  EXPECT_EQ(waits_in([&] { there.sum().item<float>(); }), 1);
  EXPECT_EQ(waits_in([&] { there.cpu(); }), 1);
}

/// A GPU refuses it, too, and its recording becomes invalid.
TEST(HostDevice, IsNotWaitedForWhileItIsRecorded) {
  const c10::Device device = device::open(kHostDevice);
  if (!device::can_record(device)) return missing_in_build("recording work of this device");
  at::Tensor there = at::ones({2}, at::TensorOptions(device));
  const c10::Stream stream = device::new_stream(device);
  EXPECT_THROW(device::Recording(stream, [&] { there.sum().item<float>(); }), c10::Error);
  EXPECT_THROW(device::Recording(stream, [&] { there.cpu(); }), c10::Error);
  device::Recording recording(stream, [&] { there.add_(1); });
  EXPECT_EQ(there.sum().item<float>(), 2) << "recorded, and not done";
  recording.repeat();
  recording.repeat();
  EXPECT_EQ(there.sum().item<float>(), 6);
}

/// The control: the host's access to the device's memory is detected.
TEST(HostDeviceDeathTest, IsClosedToTheHost) {
  const at::Tensor there = at::ones({100}, at::TensorOptions(device::open(kHostDevice)));
  EXPECT_EXIT(*static_cast<volatile float*>(there.mutable_data_ptr()),
              ::testing::KilledBySignal(SIGSEGV), "");
}

/// The library of a device is loaded into the program from outside.
class HostDeviceRun : public train::testing::TinyRun {
 protected:
  void SetUp() override {
    TinyRun::SetUp();
    std::ofstream(folder_ / "run.toml")
        << "[run]\nsteps = 3\n[model]\nlayers = 1\nwidth = 32\n"
           "heads = 2\ncontext = 16\n[data]\ntrain = "
           "[\"text.txt\"]\n[batch]\ntokens = 64\nmicro = 2\n[optim]\nkind = \"sgd\"\n";
  }
  /// `settings` are environment variables, in addition to the device's library.
  Program::Result trained(const std::string& out, const std::vector<std::string>& flags,
                          const std::vector<std::string>& settings = {}) const {
    std::vector<std::string> words{"/usr/bin/env", "LD_PRELOAD=" ACCRUE_HOST_DEVICE};
    words.insert(words.end(), settings.begin(), settings.end());
    words.insert(words.end(), {ACCRUE_PROGRAM, "train", "run.toml", "--run.out=" + out});
    words.insert(words.end(), flags.begin(), flags.end());
    return Program(folder_, words).wait();
  }
  bool tells_seconds_of_micro_batches(const std::string& out) const {
    std::ifstream lines(folder_ / out / "metrics.jsonl");
    const std::string text{std::istreambuf_iterator<char>(lines), {}};
    EXPECT_THAT(text, HasSubstr("\"loss\""));
    return text.find("micro_batch_seconds") != std::string::npos;
  }
};

TEST_F(HostDeviceRun, IsWhatTheProgramTrainsOn) {
  const auto there = trained("there", {"--run.device=hpu"});
  ASSERT_EQ(there.status, 0) << there.errors;
  const auto here = trained("here", {"--run.device=cpu", "--run.kernels=generic"});
  ASSERT_EQ(here.status, 0) << here.errors;
  expect_close(parameters_of(config("there")), parameters_of(config("here")));
  EXPECT_FALSE(tells_seconds_of_micro_batches("there")) << "which only the CPU knows";
  EXPECT_TRUE(tells_seconds_of_micro_batches("here"));
}

TEST_F(HostDeviceRun, IsRefusedWithoutOneOfTheOperations) {
  const auto refused =
      trained("out", {"--run.device=hpu"}, {"ACCRUE_HOST_DEVICE_WITHOUT=addmm.out"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, HasSubstr("run.device = \"hpu\""));
  EXPECT_THAT(refused.errors, HasSubstr("the device has no aten::addmm"));
  EXPECT_THAT(refused.errors, HasSubstr("accrue doctor --device=hpu"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(HostDeviceRun, IsRefusedWithABudgetThatItsAllocatorDoesNotKeep) {
  const auto refused = trained("out", {"--run.device=hpu", "--memory.budget=300MiB"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, HasSubstr("memory.budget with a model on hpu"));
}

TEST_F(HostDeviceRun, IsForOneProcess) {
  const auto refused =
      trained("out", {"--run.device=hpu"},
              {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1"});
  EXPECT_EQ(refused.status, 2) << "at once, without the other one";
  EXPECT_THAT(refused.errors, HasSubstr("run.device with 2 ranks"));
}

}  // namespace
}  // namespace accrue::testing
