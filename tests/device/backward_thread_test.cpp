// Hooks of a backward pass on a device run on a thread of autograd's: what they may call there.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "accrue/accum/accumulator.h"
#include "accrue/device/device.h"
#include "device/host_device.h"
#include "device/no_step.h"
#include "support/errors.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;

/// A weight on the device; `on_gradient` runs in each backward pass.
struct HookedLayer {
  explicit HookedLayer(const std::function<void()>& on_gradient) {
    const at::TensorOptions there = at::TensorOptions(device::open(kHostDevice));
    weight = at::ones({4}, there).requires_grad_();
    hook = [on_gradient](const at::Tensor&) { on_gradient(); };
  }
  Loss loss() const {
    const at::Tensor twice = 2 * weight;
    twice.register_hook([this](const at::Tensor& gradient) { hook(gradient); });
    return {twice.sum(), 2};
  }
  at::Tensor weight;
  std::function<void(const at::Tensor&)> hook;
};

TEST(BackwardThread, MayAskWhatTheWindowHolds) {
  Accumulator* asked = nullptr;
  std::vector<double> weights;
  std::vector<std::thread::id> threads;
  const HookedLayer layer([&] {
    threads.push_back(std::this_thread::get_id());
    EXPECT_TRUE(asked->pending());
    EXPECT_FALSE(asked->full());
    weights.push_back(asked->current_window().weight());
  });
  Accumulator accumulator(std::vector{layer.weight}, {.batch = Tokens{4}});
  asked = &accumulator;
  accumulator.backward(layer.loss());
  accumulator.backward(layer.loss());
  EXPECT_TRUE(accumulator.full());
  EXPECT_EQ(weights, (std::vector<double>{0, 2}));
  EXPECT_NE(threads.at(0), std::this_thread::get_id()) << "the hook ran on autograd's thread";
  EXPECT_TRUE(accumulator.step(kNoStep).stepped);
}

TEST(BackwardThread, MayAskTheAccumulatorAroundAnotherOnes) {
  Accumulator* outer = nullptr;
  int asked = 0;
  const HookedLayer within([&] {
    EXPECT_TRUE(outer->pending());
    ++asked;
  });
  Accumulator inner(std::vector{within.weight});
  const HookedLayer layer([&] {
    const c10::AutoGradMode with_graph(true);
    inner.backward(within.loss());
  });
  Accumulator accumulator(std::vector{layer.weight});
  outer = &accumulator;
  accumulator.backward(layer.loss());
  EXPECT_EQ(asked, 1);
}

TEST(BackwardThread, MayNotChangeTheWindow) {
  Accumulator* asked = nullptr;
  std::string said;
  const HookedLayer layer([&] { said = usage_message([&] { asked->next_is_last(); }); });
  Accumulator accumulator(std::vector{layer.weight});
  asked = &accumulator;
  accumulator.backward(layer.loss());
  EXPECT_THAT(said, HasSubstr("calls of one thread at a time"));
}

TEST(BackwardThread, IsNotAnyOtherThread) {
  Accumulator* asked = nullptr;
  std::vector<std::string> said;
  const HookedLayer layer([&] {
    std::thread([&] {
      said.push_back(usage_message([&] { asked->pending(); }));
      said.push_back(usage_message([&] { asked->full(); }));
      said.push_back(usage_message([&] { asked->current_window(); }));
    }).join();
  });
  Accumulator accumulator(std::vector{layer.weight});
  asked = &accumulator;
  accumulator.backward(layer.loss());
  ASSERT_EQ(said.size(), 3U);
  for (const std::string& one : said) EXPECT_THAT(one, HasSubstr("calls of one thread at a time"));
}

}  // namespace
}  // namespace accrue::testing
