// An exception around an optimizer step: with any checkpoint that the failing run leaves, a
// resumption trains each window once.
#include <gmock/gmock.h>
#include <torch/optim/adamw.h>

#include <functional>
#include <stdexcept>

#include "train/recorder.h"
#include "train/workload/custom_run.h"

namespace accrue::train::custom_run {
namespace {

using testing::AfterStep;

constexpr std::int64_t kSteps = 6, kFailing = 4;

[[noreturn]] void fail() { throw std::runtime_error("the fault of this test"); }

/// AdamW, with an action after the update of a step.
class AdamWWithSequel final : public torch::optim::AdamW {
 public:
  AdamWWithSequel(std::vector<at::Tensor> parameters, std::function<void()> sequel)
      : AdamW(std::move(parameters), torch::optim::AdamWOptions(0.05)),
        sequel_(std::move(sequel)) {}
  at::Tensor step(LossClosure closure = nullptr) override {
    const at::Tensor loss = AdamW::step(std::move(closure));
    sequel_();
    return loss;
  }

 private:
  std::function<void()> sequel_;
};

Custom with_sequel(
    const Net& net, const std::function<void()>& sequel = [] {}) {
  return {.model = [net](const Config&) { return trainable(net, summed_loss); },
          .train = all_samples(),
          .optimizer =
              [sequel](std::vector<at::Tensor> parameters) {
                return std::make_unique<AdamWWithSequel>(std::move(parameters), sequel);
              }};
}

/// Throws at its kFailing-th call.
std::function<void()> failing_at_last() {
  return [calls = std::make_shared<std::int64_t>(0)] {
    if (++*calls == kFailing) fail();
  };
}

struct Fault {
  const char* name;
  std::int64_t kept;  ///< the newest checkpoint that the failing run leaves
  std::function<void(const Config&)> run;
};

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all{
      {"before the step", kFailing - 1,
       [](const Config& c) {
         Trainer trainer(c, with_sequel(Net()));
         trainer.set_gradient_hook([call = failing_at_last()](accum::MeanGradient&) { call(); });
         trainer.run();
       }},
      {"behind the update, before the step is counted", 2,
       [](const Config& c) { Trainer(c, with_sequel(Net(), failing_at_last())).run(); }},
      {"behind a step that is counted", kFailing, [](const Config& c) {
         Trainer trainer(c, with_sequel(Net()));
         trainer.add_observer(std::make_shared<AfterStep>(kFailing, fail));
         trainer.run();
       }}};
  return all;
}

TEST_F(CustomRun, TrainsNoWindowTwiceBehindAnExceptionAroundAStep) {
  Config c = config_of_steps(kSteps, 5);
  c.run.checkpoint_every = {2, Duration::Unit::steps};
  Net straight;
  Trainer(c, with_sequel(straight)).run();
  for (const Fault& fault : faults()) {
    c.run.out = (folder_ / fault.name).string();
    EXPECT_ANY_THROW(fault.run(c)) << fault.name;
    EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps().back(), fault.kept) << fault.name;
    Net resumed;
    Trainer(c, with_sequel(resumed)).run({.resume = true});
    EXPECT_EQ(largest_difference(straight->parameters(), resumed->parameters()), 0) << fault.name;
  }
  Net shorter;
  c.run.steps = kSteps - 1;
  c.run.out = (folder_ / "shorter").string();
  Trainer(c, with_sequel(shorter)).run();
  EXPECT_GT(largest_difference(straight->parameters(), shorter->parameters()), 1e-4)
      << "the comparator sees a window";
}

}  // namespace
}  // namespace accrue::train::custom_run
