// Changes by other code to a window that is open on a device: step() reports them, and nothing
// waits for the device before.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "accrue/accum/accumulator.h"
#include "accrue/device/device.h"
#include "device/host_device.h"
#include "device/no_step.h"
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

/// The message of step() when `meddle` came between two micro-batches.
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
  const auto waits_of = [&](bool watches, int micro_batches, bool check_finite) {
    accum::Window window(std::make_shared<accum::GradientBuffer>(layer.parameters()));
    if (watches) window.watch_contents();
    const std::int64_t before = waits_for_host_device() + pageable_copies_to_host_device();
    window.open(0);
    for (int i = 0; i < micro_batches; ++i) {
      window.begin({i, {}, 2});
      torch::autograd::backward({layer.loss().sum});
      window.commit(1, 2);
    }
    window.close(check_finite);
    return waits_for_host_device() + pageable_copies_to_host_device() - before;
  };
  const std::int64_t waits_for_norm = waits_of(false, 2, true);
  EXPECT_EQ(waits_of(true, 2, true), waits_for_norm + 1);
  EXPECT_EQ(waits_of(true, 9, true), waits_for_norm + 1);
  EXPECT_EQ(waits_of(false, 9, false), 0);
  EXPECT_EQ(waits_of(true, 9, false), 0) << "nobody waits for the norm";
}

TEST(OpenWindowOnADevice, IsNotWaitedForByAStepThatLooksAtNothing) {
  const Layer layer;
  Accumulator accumulator(layer.parameters(), {.check_finite = false});
  accumulator.backward(layer.loss());
  accumulator.backward(layer.loss());
  const std::int64_t before = waits_for_host_device();
  EXPECT_TRUE(accumulator.step(kNoStep).stepped);
  EXPECT_EQ(waits_for_host_device() - before, 0);
}

/// A zero_grad() has no other effect: other changes are reported all the same.
TEST(OpenWindowOnADevice, TellsOfWritesAlsoBehindAZeroGrad) {
  const auto said_behind_zero_grad = [](const auto& meddle) {
    const Layer layer;
    Accumulator accumulator(layer.parameters());
    accumulator.backward(layer.loss());
    meddle(layer);
    layer.bias.mutable_grad().reset();
    EXPECT_THAT(error_of([&] { accumulator.backward(layer.loss()); }),
                HasSubstr("the window goes on"));
    accumulator.backward(layer.loss());
    const std::string said = error_of([&] { accumulator.step(kNoStep); });
    EXPECT_FALSE(accumulator.step(kNoStep).stepped) << "each is told once";
    return said;
  };
  EXPECT_THAT(said_behind_zero_grad([](const Layer& layer) { layer.weight.data().mul_(0.5); }),
              AllOf(HasSubstr("a changed parameter"), HasSubstr("'weight'")));
  EXPECT_THAT(
      said_behind_zero_grad([](const Layer& layer) { layer.weight.grad().data().mul_(0.5); }),
      AllOf(HasSubstr("a gradient written in place"), HasSubstr("'weight'")));
}

TEST(OpenWindowOnADevice, TellsOnceOfALostWindow) {
  const Layer layer;
  Accumulator accumulator(layer.parameters());
  accumulator.backward(layer.loss());
  layer.weight.grad().mul_(0.5);
  EXPECT_THAT(error_of([&] { accumulator.backward(layer.loss()); }),
              HasSubstr("this window is lost"));
  layer.weight.data().mul_(0.5);
  EXPECT_FALSE(accumulator.step(kNoStep).stepped);
}

TEST(OpenWindowOnADevice, SeesParametersWithGaps) {
  const at::TensorOptions there = at::TensorOptions(device::open(kHostDevice));
  const at::Tensor input = at::ones({2, 40}, there);
  for (const bool meddles : {true, false}) {
    const at::Tensor weight = at::ones({70, 80}, there).slice(1, 20, 60).requires_grad_();
    ASSERT_FALSE(weight.is_non_overlapping_and_dense());
    Accumulator accumulator(NamedParameters{{"weight", weight}});
    const auto backward = [&] {
      accumulator.backward({at::linear(input, weight).square().sum(), 2});
    };
    for (int window = 0; window < 2; ++window) {
      backward();
      backward();
      EXPECT_TRUE(accumulator.step(kNoStep).stepped);
      weight.data().mul_(0.5);
    }
    backward();
    if (meddles) weight.data().mul_(0.5);
    backward();
    if (meddles)
      EXPECT_THAT(error_of([&] { accumulator.step(kNoStep); }),
                  AllOf(HasSubstr("a changed parameter"), HasSubstr("'weight'")));
    else
      EXPECT_TRUE(accumulator.step(kNoStep).stepped);
  }
}

TEST(OpenWindowOnADevice, LetsAModelWriteItsOwnWeightsIfAsked) {
  const Layer layer;
  Accumulator accumulator(layer.parameters(), {.watch_parameters = false});
  accumulator.backward(layer.loss());
  layer.weight.data().mul_(0.5);
  accumulator.backward(layer.loss());
  EXPECT_TRUE(accumulator.step(kNoStep).stepped);
  accumulator.backward(layer.loss());
  layer.bias.grad().data().mul_(0.5);
  accumulator.backward(layer.loss());
  EXPECT_THAT(error_of([&] { accumulator.step(kNoStep); }),
              AllOf(HasSubstr("a gradient written in place"), HasSubstr("'bias'")));
}

}  // namespace
}  // namespace accrue::testing
