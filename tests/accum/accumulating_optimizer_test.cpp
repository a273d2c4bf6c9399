// Parameter groups of a wrapped optimizer: their options are the inner one's.
#include "accrue/accum/accumulating_optimizer.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

#include "accum/problem.h"
#include "support/errors.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

namespace nn = torch::nn;
using torch::optim::SGD;
using torch::optim::SGDOptions;

nn::Linear grouped_model() {
  torch::manual_seed(1);
  nn::Linear model(4, 2);
  model->to(torch::kDouble);
  return model;
}

Loss grouped_loss(nn::Linear& model, std::int64_t first) {
  const at::Tensor x = at::arange(first, first + 8, at::kDouble).view({2, 4}) / 10;
  return {model->forward(x).square().sum(), 2};
}

double grouped_rate(torch::optim::Optimizer& optimizer) {
  return optimizer.param_groups().at(0).options().get_lr();
}

/// Four steps, with `after_step(wrapped, inner)` after each; by the plain optimizer if `is_plain`:
/// then both arguments are that one.
template <class AfterStep>
std::vector<at::Tensor> train_grouped(bool is_plain, const AfterStep& after_step) {
  nn::Linear model = grouped_model();
  SGD sgd(model->parameters(), SGDOptions(0.1));
  AccumulatingOptimizer wrapped(model, sgd, {.micro_batches = 2});
  torch::optim::Optimizer& seen = is_plain ? static_cast<torch::optim::Optimizer&>(sgd) : wrapped;
  auto step = after_step(seen, sgd);
  for (int i = 0; i < 4; ++i) {
    if (is_plain) {
      sgd.zero_grad();
      ((grouped_loss(model, 0).sum + grouped_loss(model, 5).sum) / 4).backward();
      sgd.step();
    } else {
      for (const std::int64_t first : {0, 5}) {
        wrapped.zero_grad();
        wrapped.backward(grouped_loss(model, first));
        wrapped.step();
      }
    }
    step();
  }
  return testing::copies(model->parameters());
}

template <class AfterStep>
void expect_same_training(const AfterStep& after_step) {
  const auto actual = train_grouped(false, after_step), expected = train_grouped(true, after_step);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(testing::relative_error(actual[i], expected[i]), 1e-12);
  // The comparator sees a schedule that has no effect.
  const auto constant = train_grouped(true, [](auto&, auto&) { return [] {}; });
  EXPECT_GT(testing::relative_error(constant[0], expected[0]), 1e-4);
}

TEST(AccumulatingOptimizerGroups, TakeStepLR) {
  expect_same_training([](torch::optim::Optimizer& seen, SGD&) {
    auto scheduler = std::make_shared<torch::optim::StepLR>(seen, 1, 0.5);
    return [scheduler] { scheduler->step(); };
  });
}

TEST(AccumulatingOptimizerGroups, TakeReduceLROnPlateau) {
  expect_same_training([](torch::optim::Optimizer& seen, SGD&) {
    auto scheduler = std::make_shared<torch::optim::ReduceLROnPlateauScheduler>(
        seen, torch::optim::ReduceLROnPlateauScheduler::min, 0.5F, 0);
    return [scheduler] { scheduler->step(1.0F); };
  });
}

TEST(AccumulatingOptimizerGroups, TakeASchedulerOfTheInnerOne) {
  expect_same_training([](torch::optim::Optimizer&, SGD& inner) {
    auto scheduler = std::make_shared<torch::optim::StepLR>(inner, 1, 0.5);
    return [scheduler] { scheduler->step(); };
  });
}

TEST(AccumulatingOptimizerGroups, TakeSetLrAndOptionsOfTheirType) {
  expect_same_training([](torch::optim::Optimizer& seen, SGD&) {
    return [&seen] { seen.param_groups()[0].options().set_lr(0.02); };
  });
  expect_same_training([](torch::optim::Optimizer& seen, SGD&) {
    return [&seen] {
      static_cast<SGDOptions&>(seen.param_groups()[0].options()).momentum(0.9).weight_decay(0.1);
    };
  });
}

TEST(AccumulatingOptimizerGroups, HaveNoParameters) {
  nn::Linear model = grouped_model();
  SGD sgd(model->parameters(), 0.1);
  AccumulatingOptimizer wrapped(sgd, {.micro_batches = 2});
  ASSERT_EQ(wrapped.param_groups().size(), 1U);
  EXPECT_TRUE(wrapped.param_groups()[0].params().empty());
  wrapped.backward(grouped_loss(model, 0));
  wrapped.zero_grad();
  wrapped.backward(grouped_loss(model, 5));
  wrapped.step();
  EXPECT_TRUE(wrapped.last_report().stepped);
}

TEST(AccumulatingOptimizerGroups, AreSettledAtFinishSaveAndLoad) {
  nn::Linear model = grouped_model();
  SGD sgd(model->parameters(), 0.1);
  AccumulatingOptimizer wrapped(sgd, {.micro_batches = 2});
  wrapped.param_groups()[0].options().set_lr(0.25);
  std::stringstream file;
  torch::save(wrapped, file);
  EXPECT_EQ(grouped_rate(sgd), 0.25);
  SGD other(model->parameters(), 0.1);
  AccumulatingOptimizer loaded(other, {.micro_batches = 2});
  torch::load(loaded, file);
  EXPECT_EQ(grouped_rate(other), 0.25);
  EXPECT_EQ(grouped_rate(loaded), 0.25);

  wrapped.param_groups()[0].options().set_lr(0.5);
  wrapped.backward(grouped_loss(model, 0));
  wrapped.finish();
  EXPECT_EQ(grouped_rate(sgd), 0.5);
  sgd.param_groups()[0].options().set_lr(0.125);
  wrapped.finish();
  EXPECT_EQ(grouped_rate(wrapped), 0.125) << "what the inner one was set to is seen, too";
}

/// Settings before a save are settled by it: of two changes with one between them the later one
/// counts.
TEST(AccumulatingOptimizerGroups, AreAlikeBehindASave) {
  const auto save = [](const AccumulatingOptimizer& optimizer) {
    std::stringstream file;
    torch::save(optimizer, file);
  };
  nn::Linear model = grouped_model();
  SGD sgd(model->parameters(), 0.1);
  AccumulatingOptimizer wrapped(sgd, {.micro_batches = 2});
  sgd.param_groups()[0].options().set_lr(0.125);
  wrapped.backward(grouped_loss(model, 0));
  save(wrapped);
  EXPECT_EQ(grouped_rate(wrapped), 0.125);

  wrapped.param_groups()[0].options().set_lr(0.25);
  save(wrapped);
  EXPECT_EQ(grouped_rate(sgd), 0.25);
  sgd.param_groups()[0].options().set_lr(0.5);
  wrapped.backward(grouped_loss(model, 5));
  wrapped.step();
  EXPECT_TRUE(wrapped.last_report().stepped);
  EXPECT_EQ(grouped_rate(sgd), 0.5);
  EXPECT_EQ(grouped_rate(wrapped), 0.5);
}

TEST(AccumulatingOptimizerGroups, FollowEachGroupOfTheInnerOne) {
  nn::Linear model = grouped_model();
  torch::optim::AdamW adamw(
      {torch::optim::OptimizerParamGroup({model->weight},
                                         std::make_unique<torch::optim::AdamWOptions>(0.1)),
       torch::optim::OptimizerParamGroup({model->bias},
                                         std::make_unique<torch::optim::AdamWOptions>(0.2))},
      torch::optim::AdamWOptions(0.3));
  AccumulatingOptimizer wrapped(adamw, {.micro_batches = 1});
  ASSERT_EQ(wrapped.param_groups().size(), 2U);
  wrapped.param_groups()[1].options().set_lr(0.0);
  const at::Tensor bias = model->bias.detach().clone(), weight = model->weight.detach().clone();
  wrapped.backward(grouped_loss(model, 0));
  wrapped.step();
  EXPECT_TRUE(at::equal(model->bias, bias));
  EXPECT_FALSE(at::equal(model->weight, weight));
  EXPECT_EQ(adamw.param_groups()[0].options().get_lr(), 0.1);
}

/// A user's own optimizer, with options that libtorch does not know.
struct OwnOptions : torch::optim::OptimizerCloneableOptions<OwnOptions> {
  double rate = 1;
  double get_lr() const override { return rate; }
  void set_lr(double lr) override { rate = lr; }
};
struct OwnOptimizer : torch::optim::Optimizer {
  explicit OwnOptimizer(std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<OwnOptions>()) {}
  at::Tensor step(LossClosure = nullptr) override { return {}; }
};
struct WithoutRate : torch::optim::OptimizerCloneableOptions<WithoutRate> {};
struct RatelessOptimizer : torch::optim::Optimizer {
  explicit RatelessOptimizer(std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<WithoutRate>()) {}
  at::Tensor step(LossClosure = nullptr) override { return {}; }
};

TEST(AccumulatingOptimizerGroups, OfATypeOfOnesOwnKeepTheRateAlike) {
  nn::Linear model = grouped_model();
  OwnOptimizer own(model->parameters());
  AccumulatingOptimizer wrapped(own, {.micro_batches = 1});
  wrapped.param_groups()[0].options().set_lr(0.5);
  wrapped.backward(grouped_loss(model, 0));
  wrapped.step();
  EXPECT_EQ(grouped_rate(own), 0.5);
  RatelessOptimizer rateless(model->parameters());
  AccumulatingOptimizer around(rateless, {.micro_batches = 1});
  around.backward(grouped_loss(model, 0));
  around.step();
  EXPECT_TRUE(around.last_report().stepped);
}

/// Without a size no window would ever be full, and nothing would be trained.
TEST(AccumulatingOptimizerSize, IsNeeded) {
  nn::Linear model = grouped_model();
  SGD sgd(model->parameters(), 0.1);
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{-3}})
    EXPECT_EQ(testing::error_of([&] { accumulating(model, sgd, count); }),
              "accumulating: expected at least 1 micro-batch a step, received " +
                  std::to_string(count) + "; try accumulating(model, optimizer, 8)");
  EXPECT_THAT(testing::error_of(
                  [&] { accumulating(model, sgd, std::numeric_limits<std::int64_t>::max()); }),
              ::testing::HasSubstr("at most 2^53"));
  EXPECT_THAT(testing::error_of([&] { accumulating(model, sgd, 2, {.batch = Samples{4}}); }),
              ::testing::HasSubstr("one of batch and micro_batches"));
  for (const auto& error : {testing::error_of([&] { AccumulatingOptimizer(sgd, {}); }),
                            testing::error_of([&] { AccumulatingOptimizer(model, sgd, {}); })})
    EXPECT_THAT(error, ::testing::HasSubstr("the size of a window, received neither batch nor"));
  EXPECT_NO_THROW(accumulating(model, sgd, 1));
}

}  // namespace
}  // namespace accrue
