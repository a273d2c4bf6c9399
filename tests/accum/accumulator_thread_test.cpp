// One thread at a time may be in an Accumulator's calls; a second one is refused.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <future>
#include <mutex>
#include <thread>

#include "accrue/accum/accumulator.h"
#include "accum/problem.h"
#include "accum/taken.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kTake;
using testing::usage_message;

/// Holds the thread that takes a step until it is released.
class HeldStep {
 public:
  explicit HeldStep(Accumulator& accumulator)
      : thread_([&] {
          accumulator.step([&](accum::MeanGradient&& gradient) {
            gradient.materialize();
            is_inside_.set_value();
            let_go_.get_future().wait();
          });
        }) {
    is_inside_.get_future().wait();
  }
  ~HeldStep() {
    let_go_.set_value();
    thread_.join();
  }

 private:
  std::promise<void> is_inside_, let_go_;
  std::thread thread_;
};

TEST(AccumulatorThread, RefusesEachCallOfASecondThread) {
  const auto says = AllOf(HasSubstr("calls of one thread at a time to this Accumulator"),
                          HasSubstr("a second thread"), HasSubstr("a mutex"));
  at::Tensor weight = torch::ones({3}).requires_grad_();
  Accumulator accumulator({weight}, {.batch = Samples{2}});
  accumulator.backward({weight.sum(), 1}, Samples{1});
  {
    const HeldStep held(accumulator);
    torch::optim::SGD optimizer({weight}, 0.1);
    const std::vector<std::function<void()>> calls{
        [&] {
          accumulator.backward({weight.sum(), 1});
        },
        [&] {
          accumulator.backward({weight.sum(), 1}, Samples{1});
        },
        [&] {
          accumulator.backward(std::vector<Loss>{{weight.sum(), 1}});
        },
        [&] { accumulator.backward_from({weight.sum()}, {torch::ones({})}); },
        [&] {
          accumulator.expect({{1.0}, {1.0}});
        },
        [&] { accumulator.step(kTake); },
        [&] { accumulator.step(optimizer); },
        [&] { accumulator.finish(kTake); },
        [&] { accumulator.finish(optimizer); },
        [&] { accumulator.full(); },
        [&] { accumulator.pending(); },
        [&] { accumulator.current_window(); },
        [&] { accumulator.share(); },
        [&] { accumulator.next_is_last(); },
        [&] { accumulator.set_batch(Samples{4}); },
        [&] { accumulator.discard(); },
        [&] { accumulator.window(); },
        [&] { accumulator.state(); },
        [&] { accumulator.load({}); }};
    for (std::size_t i = 0; i < calls.size(); ++i)
      EXPECT_THAT(usage_message(calls[i]), says) << "call " << i;
  }
  EXPECT_TRUE(at::equal(weight.grad(), at::ones({3}))) << "the first thread's step is whole";
  accumulator.backward({weight.sum(), 1}, Samples{1});
  EXPECT_TRUE(accumulator.step(kTake).stepped) << "another thread may go on";
}

TEST(AccumulatorThread, LetsACallbackCallAgain) {
  at::Tensor weight = torch::ones({3}).requires_grad_();
  Accumulator* inner = nullptr;
  Accumulator accumulator({weight}, {.on_mean_gradient = [&](accum::MeanGradient&) {
                            EXPECT_FALSE(inner->pending());
                          }});
  inner = &accumulator;
  accumulator.backward({weight.sum(), 1});
  EXPECT_TRUE(accumulator.step([&](accum::MeanGradient&&) { accumulator.state(); }).stepped);
}

/// Threads that take turns by a mutex, as the message advises, get the same sum as one thread.
TEST(AccumulatorThread, IsRightForThreadsThatTakeTurns) {
  const testing::Problem problem = testing::make_problem(5, at::kDouble);
  Accumulator accumulator(problem.parameters);
  std::mutex turn;
  std::vector<std::thread> threads;
  for (std::int64_t first = 0; first < 3; ++first)
    threads.emplace_back([&, first] {
      for (std::int64_t sample = first; sample < 12; sample += 3) {
        const std::lock_guard lock(turn);
        accumulator.backward(problem.loss({sample}));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(accumulator.step(kTake).weight, static_cast<double>(problem.rows));
  const auto expected = problem.reference();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(testing::relative_error(problem.parameters[i].tensor.grad(), expected[i]), 1e-12);
}

/// Without a mutex each sample is either in the sum, or its thread got an error.
TEST(AccumulatorThread, LosesNoSampleWithoutAWord) {
  at::Tensor weight = torch::ones({2000}).requires_grad_();
  Accumulator accumulator({weight});
  std::atomic<int> refused{0}, taken{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < 2; ++k)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        try {
          accumulator.backward({weight.sum(), 1});
          ++taken;
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("one thread at a time"));
          ++refused;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused + taken, 400);
  const StepReport report = accumulator.step(kTake);
  EXPECT_EQ(report.weight, taken.load());
  // The sum of ones is exact; the mean rounds once or twice. Equal bits would depend on how many
  // calls are refused: 49 times 1 / 49 is not 1.
  EXPECT_TRUE(testing::close(weight.grad(), at::ones({2000}), at::kFloat, 1));
}

}  // namespace
}  // namespace accrue
