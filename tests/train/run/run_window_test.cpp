// The flow of a window that all runners share, with a runner that a test controls.
#include "train/run/run_window.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <deque>
#include <new>
#include <stdexcept>

#include "accrue/core/error.h"
#include "train/ranks/single_process.h"
#include "train/recorder.h"

namespace accrue::train {
namespace {

using ::testing::ElementsAre;

/// The result of a fill: an exception, or an answer after one micro-batch was committed.
struct Answer {
  Filled filled = Filled::whole;
  Filled closed = Filled::whole;
  bool out_of_memory = false;
  bool fails = false;
};

class ScriptedRunner final : public Runner {
 public:
  ScriptedRunner(accum::Window& window, at::Tensor parameter, std::deque<Answer> answers)
      : window_(window), parameter_(std::move(parameter)), answers_(std::move(answers)) {}

  Opening prepare(const WindowRequest&) override {
    now_ = answers_.front();
    answers_.pop_front();
    return {};
  }
  Filled fill(WindowRequest& request, WindowRun& run) override {
    EXPECT_TRUE(window_.is_open());
    fills.push_back(request.fills);
    sizes.push_back(request.micro_batches.front().size());
    window_.begin({.index = 0, .sample_ids = {0}});
    torch::autograd::backward({parameter_.sum()});
    window_.commit(1, 1);
    if (now_.out_of_memory) throw std::bad_alloc();
    if (now_.fails) throw std::runtime_error("a test");
    run.tokens = 7;
    return now_.filled;
  }
  Filled closed(WindowRequest&, WindowRun&) override {
    EXPECT_FALSE(window_.is_open());
    return now_.closed;
  }
  void undo() override { ++undone; }

  std::vector<std::int64_t> fills, sizes;
  int undone = 0;

 private:
  accum::Window& window_;
  at::Tensor parameter_;
  std::deque<Answer> answers_;
  Answer now_;
};

struct Flow {
  explicit Flow(std::deque<Answer> answers, bool retries_memory = true)
      : runner(window, parameter, std::move(answers)),
        retries(retries_memory ? &recovery : nullptr) {}

  WindowRun run() {
    return run_window({window, runner, alone, retries, log}, WindowRequest::even(3, {0, 8}, 4));
  }

  at::Tensor parameter = at::ones({2}).requires_grad_(true);
  accum::Window window{
      std::make_shared<accum::GradientBuffer>(NamedParameters{{"weight", parameter}})};
  std::shared_ptr<testing::Recorder> recorder = std::make_shared<testing::Recorder>();
  RunLog::Observers observers{recorder};
  TrainState state;
  RunLog log{observers, state, true};
  SingleProcess alone;
  memory::Recovery recovery{{.planned = 4, .micro_batch = 4}};
  ScriptedRunner runner;
  memory::Retries retries;
};

TEST(RunWindow, FillsAgainAsOftenAsTheRunnerAsksBeforeAndAfterTheClose) {
  Flow flow({{.filled = Filled::again}, {.closed = Filled::again}, {}});
  const WindowRun run = flow.run();
  EXPECT_THAT(flow.runner.fills, ElementsAre(0, 1, 2));
  EXPECT_EQ(flow.runner.undone, 1) << "a window that was closed has nothing to undo";
  EXPECT_EQ(run.retries, 2);
  EXPECT_EQ(run.out_of_memory, 0);
  EXPECT_EQ(run.tokens, 7);
  EXPECT_EQ(run.weight, 1) << "of the last fill alone";
  EXPECT_TRUE(run.gradient);
}

TEST(RunWindow, StartsAgainIfMemoryRunsOutAndThenSplits) {
  Flow flow({{.out_of_memory = true}, {.out_of_memory = true}, {}});
  const WindowRun run = flow.run();
  EXPECT_THAT(flow.runner.sizes, ElementsAre(4, 4, 2));
  EXPECT_THAT(flow.runner.fills, ElementsAre(0, 0, 0));
  EXPECT_EQ(flow.runner.undone, 2);
  EXPECT_EQ(run.retries, 2);
  EXPECT_EQ(run.out_of_memory, 2);
  EXPECT_TRUE(flow.recorder->has_event("out_of_memory"));
}

TEST(RunWindow, LeavesNothingBehindIfItFailsOrIsInterrupted) {
  Flow failing(std::deque<Answer>{{.fails = true}});
  EXPECT_THROW(failing.run(), std::runtime_error);
  Flow without_retries(std::deque<Answer>{{.out_of_memory = true}}, false);
  EXPECT_THROW(without_retries.run(), std::bad_alloc);
  Flow interrupted(std::deque<Answer>{{.filled = Filled::interrupted}});
  EXPECT_TRUE(interrupted.run().interrupted);
  for (Flow* flow : {&failing, &without_retries, &interrupted}) {
    EXPECT_FALSE(flow->window.is_open());
    EXPECT_EQ(flow->runner.undone, 1);
    EXPECT_FALSE(flow->recorder->has_event("out_of_memory"));
  }
}

}  // namespace
}  // namespace accrue::train
