// What others do to a window that is open on a device: step() tells of it, and until then nobody
// waits for the device.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "accrue/accum/accumulator.h"
#include "accrue/device/device.h"
#include "device/host_device.h"
#include "support/errors.h"

namespace accrue::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Layer {
  Layer() {
    const at::TensorOptions there = at::TensorOptions(device::open(kHostDevice));
    weight = at::ones({70, 40}, there).requires_grad_();
    bias = at::ones({70}, there).requires_grad_();
    input = at::ones({2, 40}, there);
  }
  Loss loss() const { return {at::linear(input, weight, bias).square().sum(), 2}; }
  NamedParameters parameters() const { return {{"weight", weight}, {"bias", bias}}; }
  at::Tensor weight, bias, input;
};

const Accumulator::StepFunction kNoStep = [](accum::MeanGradient&&) {};

/// What step() says when `meddle` came between two micro-batches.
template <class Meddle>
std::string said_by_step(const Meddle& meddle) {
  const Layer layer;
  Accumulator accumulator(layer.parameters());
  accumulator.backward(layer.loss());
  meddle(layer);
  accumulator.backward(layer.loss());
  return error_of([&] { accumulator.step(kNoStep); });
}

TEST(OpenWindowOnADevice, RefusesByNameWhatOthersWrote) {
  EXPECT_THAT(said_by_step([](const Layer& layer) { layer.weight.data().mul_(0.5); }),
              AllOf(HasSubstr("a changed parameter"), HasSubstr("'weight'")));
  EXPECT_THAT(said_by_step([](const Layer& layer) { layer.bias.data().sub_(layer.bias.grad()); }),
              AllOf(HasSubstr("a changed parameter"), HasSubstr("'bias'")));
  EXPECT_THAT(said_by_step([](const Layer& layer) { layer.bias.grad().data().mul_(0.5); }),
              AllOf(HasSubstr("a gradient written in place"), HasSubstr("'bias'")));
}

TEST(OpenWindowOnADevice, LeavesRightWindowsAlone) {
  const Layer layer;
  Accumulator accumulator(layer.parameters());
  for (int window = 0; window < 3; ++window) {
    for (int i = 0; i < 3; ++i) accumulator.backward(layer.loss());
    EXPECT_TRUE(accumulator.step(kNoStep).stepped);
    const at::NoGradGuard no_grad;
    layer.weight.data().mul_(0.9);
  }
}

TEST(OpenWindowOnADevice, IsWaitedForOnceAWindow) {
  const Layer layer;
  const auto waits_of = [&](bool watches, int micro_batches) {
    accum::Window window(std::make_shared<accum::GradientBuffer>(layer.parameters()));
    if (watches) window.watch_contents();
    const std::int64_t before = waits_for_host_device() + pageable_copies_to_host_device();
    window.open(0);
    for (int i = 0; i < micro_batches; ++i) {
      window.begin({i, {}, 2});
      torch::autograd::backward({layer.loss().sum});
      window.commit(1, 2);
    }
    window.close(/*check_finite=*/false);
    return waits_for_host_device() + pageable_copies_to_host_device() - before;
  };
  EXPECT_EQ(waits_of(false, 2), 0);
  EXPECT_EQ(waits_of(true, 2), 1);
  EXPECT_EQ(waits_of(true, 9), 1);
}

}  // namespace
}  // namespace accrue::testing
