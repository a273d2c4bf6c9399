#include <gmock/gmock.h>
#include <torch/torch.h>

#include <sstream>

#include "accrue/accum/accumulate.h"
#include "accrue/accum/accumulating_optimizer.h"
#include "accrue/accum/accumulator.h"
#include "accrue/accum/accumulator_archive.h"
#include "accum/problem.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 24;

torch::nn::Sequential make_model(torch::Dtype dtype = torch::kFloat64) {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(6, 8), torch::nn::Tanh(),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})),
                              torch::nn::Linear(8, 2));
  model->to(dtype);
  return model;
}

struct Rows {
  at::Tensor x, y;
  Rows slice(std::int64_t from, std::int64_t to) const {
    return {x.slice(0, from, to), y.slice(0, from, to)};
  }
};

Rows make_rows(torch::Dtype dtype = torch::kFloat64) {
  torch::manual_seed(2);
  return {torch::randn({kRows, 6}, dtype), torch::randn({kRows, 2}, dtype)};
}

Loss loss_of(torch::nn::Sequential& model, const Rows& rows) {
  return {(model->forward(rows.x) - rows.y).square().sum(), static_cast<double>(rows.x.size(0))};
}

/// eps away from 0: near it AdamW turns rounding of small gradients into full steps.
torch::optim::AdamW make_adamw(torch::nn::Sequential& model) {
  return torch::optim::AdamW(model->parameters(),
                             torch::optim::AdamWOptions(0.01).eps(1e-5).weight_decay(0.1));
}

const std::vector<std::pair<std::int64_t, std::int64_t>> kSplit{{0, 1}, {1, 9}, {9, 12}, {12, 24}};

template <typename Step>
std::vector<at::Tensor> train(Step&& step, std::int64_t steps = 5) {
  torch::nn::Sequential model = make_model();
  torch::optim::AdamW optimizer = make_adamw(model);
  const Rows rows = make_rows();
  for (std::int64_t i = 0; i < steps; ++i) step(model, optimizer, rows);
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : model->parameters()) result.push_back(parameter.detach());
  return result;
}

std::vector<at::Tensor> train_on_full_batches(double clip_norm) {
  return train([&](auto& model, auto& optimizer, const Rows& rows) {
    optimizer.zero_grad();
    const Loss loss = loss_of(model, rows);
    (loss.sum / loss.weight).backward();
    if (clip_norm > 0) torch::nn::utils::clip_grad_norm_(model->parameters(), clip_norm);
    optimizer.step();
  });
}

double worst_error(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, testing::relative_error(actual[i], expected[i]));
  return worst;
}

TEST(AccumulatorTorch, TakesTheStepsOfAFullBatchLoop) {
  // torch adds 1e-6 to the norm by which it clips, hence the second bound.
  for (const auto& [norm, bound] : {std::pair{0.0, 1e-12}, std::pair{0.1, 1e-5}}) {
    const double clip_norm = norm;  // clang 14 cannot capture structured bindings
    std::unique_ptr<Accumulator> accumulator;
    const auto actual = train([&](auto& model, auto& optimizer, const Rows& rows) {
      if (!accumulator)
        accumulator = std::make_unique<Accumulator>(
            model->parameters(),
            AccumulatorOptions{.batch = Samples{kRows}, .clip_norm = clip_norm});
      for (const auto& [from, to] : kSplit) {
        accumulator->backward(loss_of(model, rows.slice(from, to)), Samples{to - from});
        if (accumulator->full()) accumulator->step(optimizer);
      }
      optimizer.zero_grad();
    });
    EXPECT_LE(worst_error(actual, train_on_full_batches(clip_norm)), bound);
  }
}

TEST(AccumulatorTorch, ComparatorSeesAMeanOfMeans) {
  const auto wrong = train([&](auto& model, auto& optimizer, const Rows& rows) {
    Accumulator accumulator(model->parameters());
    for (const auto& [from, to] : kSplit) {
      const Loss loss = loss_of(model, rows.slice(from, to));
      accumulator.backward({loss.sum / loss.weight, 1});
    }
    accumulator.step(optimizer);
  });
  EXPECT_GT(worst_error(wrong, train_on_full_batches(0)), 1e-5);
}

TEST(AccumulatorTorch, RefusesTheLoopsOfOldByName) {
  torch::nn::Sequential model = make_model();
  torch::optim::AdamW optimizer = make_adamw(model);
  const Rows rows = make_rows();
  Accumulator accumulator(model->parameters(), {.batch = Samples{kRows}});
  accumulator.backward(loss_of(model, rows.slice(0, 4)), Samples{4});
  optimizer.zero_grad();
  EXPECT_THAT(error_of([&] { accumulator.backward(loss_of(model, rows.slice(4, 8)), Samples{4}); }),
              HasSubstr("zero_grad()"));
  EXPECT_FALSE(accumulator.full());
  model->zero_grad(false);
  accumulator.discard();
  accumulator.backward(loss_of(model, rows.slice(0, 4)), Samples{4});
  model->zero_grad(false);
  EXPECT_THAT(error_of([&] { accumulator.backward(loss_of(model, rows.slice(4, 8)), Samples{4}); }),
              HasSubstr("window is lost"));
  accumulator.discard();
  accumulator.backward(loss_of(model, rows.slice(0, 4)), Samples{4});
  optimizer.step();
  EXPECT_THAT(error_of([&] { accumulator.step(optimizer); }), HasSubstr("step()"));
}

TEST(AccumulatorTorch, RefusesAnOptimizerOfOtherParameters) {
  torch::nn::Sequential model = make_model();
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Accumulator accumulator(std::vector<at::Tensor>{model->parameters()[0]});
  accumulator.backward(loss_of(model, make_rows()));
  EXPECT_THAT(error_of([&] { accumulator.step(optimizer); }), HasSubstr("parameter 1"));
  EXPECT_TRUE(accumulator.pending());
}

TEST(AccumulatorTorch, SkipsUnusedParametersAndServesParameterGroups) {
  torch::nn::Sequential model = make_model();
  torch::nn::Linear unused(3, 3);
  unused->to(torch::kFloat64);
  const at::Tensor before = unused->weight.detach().clone();
  torch::optim::SGD optimizer(
      {torch::optim::OptimizerParamGroup(model->parameters(),
                                         std::make_unique<torch::optim::SGDOptions>(0.1)),
       torch::optim::OptimizerParamGroup(unused->parameters(),
                                         std::make_unique<torch::optim::SGDOptions>(
                                             torch::optim::SGDOptions(0.2).weight_decay(1)))},
      torch::optim::SGDOptions(0.1));
  std::vector<at::Tensor> all = model->parameters();
  for (const at::Tensor& parameter : unused->parameters()) all.push_back(parameter);
  Accumulator accumulator(all);
  const at::Tensor used_before = model->parameters()[0].detach().clone();
  accumulator.backward(loss_of(model, make_rows()));
  accumulator.step(optimizer);
  EXPECT_TRUE(at::equal(before, unused->weight));
  EXPECT_FALSE(at::equal(used_before, model->parameters()[0]));
}

TEST(AccumulatorTorch, GivesNarrowParametersTheirGradientForTheStepOnly) {
  torch::nn::Linear model(4, 2);
  model->to(torch::kBFloat16);
  torch::optim::SGD optimizer(model->parameters(), 1.0);
  Accumulator accumulator(model->parameters());
  const at::Tensor x = torch::ones({1, 4}, torch::kBFloat16),
                   before = model->weight.detach().clone();
  for (int i = 0; i < 300; ++i) accumulator.backward({model->forward(x).sum(), 1});
  accumulator.step(optimizer);
  // Each gradient entry is 1 in every micro-batch, so the mean is 1 exactly.
  EXPECT_TRUE(at::equal(model->weight, before - 1));
  EXPECT_FALSE(model->weight.grad().defined());
}

TEST(AccumulatorTorch, SavesAndLoadsInTheMiddleOfAWindow) {
  const Rows rows = make_rows();
  const auto run = [&](bool interrupted) {
    torch::nn::Sequential model = make_model();
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    auto accumulator = std::make_unique<Accumulator>(model->parameters(),
                                                     AccumulatorOptions{.batch = Samples{kRows}});
    accumulator->backward(loss_of(model, rows.slice(0, 5)), Samples{5}, {10, 11, 12, 13, 14});
    if (interrupted) {
      std::stringstream file;
      torch::serialize::OutputArchive out;
      write(accumulator->state(), out);
      out.save_to(file);
      accumulator.reset();
      accumulator = std::make_unique<Accumulator>(model->parameters(),
                                                  AccumulatorOptions{.batch = Samples{kRows}});
      torch::serialize::InputArchive in;
      in.load_from(file);
      accumulator->load(read_accumulator_state(in));
      EXPECT_EQ(accumulator->current_window().ledger().entries[0].micro.sample_ids[4], 14);
    }
    accumulator->backward(loss_of(model, rows.slice(5, kRows)), Samples{kRows - 5});
    EXPECT_TRUE(accumulator->full());
    EXPECT_EQ(accumulator->step(optimizer).samples, kRows);
    return testing::copies(model->parameters());
  };
  EXPECT_TRUE(testing::same_bits(run(false), run(true)));
  torch::serialize::InputArchive nothing;
  std::stringstream file;
  torch::serialize::OutputArchive empty;
  empty.save_to(file);
  nothing.load_from(file);
  EXPECT_THAT(error_of([&] { read_accumulator_state(nothing); }), HasSubstr("'counts'"));
}

TEST(AccumulatingOptimizer, ActsOnlyWhenItsWindowIsFull) {
  const auto actual = train([](auto& model, auto& adamw, const Rows& rows) {
    AccumulatingOptimizer wrapped(adamw, {.batch = Samples{kRows}});
    torch::optim::Optimizer& optimizer = wrapped;
    for (const auto& [from, to] : kSplit) {
      optimizer.zero_grad();
      const at::Tensor before = model->parameters()[0].detach().clone();
      wrapped.backward(loss_of(model, rows.slice(from, to)), Samples{to - from});
      optimizer.step();
      EXPECT_EQ(at::equal(before, model->parameters()[0]), to < kRows);
      EXPECT_EQ(wrapped.last_report().stepped, to == kRows);
    }
  });
  EXPECT_LE(worst_error(actual, train_on_full_batches(0)), 1e-12);
}

TEST(AccumulatingOptimizer, CountsTheMicroBatchesOfAModel) {
  const auto actual = train([](auto& model, auto& adamw, const Rows& rows) {
    auto optimizer = accumulating(model, adamw, std::ssize(kSplit));
    for (const auto& [from, to] : kSplit) {
      optimizer.backward(loss_of(model, rows.slice(from, to)));
      optimizer.step();
    }
    EXPECT_TRUE(optimizer.last_report().stepped);
  });
  EXPECT_LE(worst_error(actual, train_on_full_batches(0)), 1e-12);
}

TEST(AccumulatingOptimizer, RefusesClosuresAndStepsWithoutBackward) {
  torch::nn::Sequential model = make_model();
  torch::optim::AdamW adamw = make_adamw(model);
  AccumulatingOptimizer optimizer(adamw, {.batch = Samples{kRows}});
  EXPECT_THAT(error_of([&] { optimizer.step(); }), HasSubstr("optimizer.backward"));
  EXPECT_THAT(error_of([&] { optimizer.step([] { return at::Tensor(); }); }), HasSubstr("closure"));
  optimizer.backward(loss_of(model, make_rows().slice(0, 3)), Samples{3});
  EXPECT_TRUE(optimizer.finish().stepped);
}

TEST(AccumulatingOptimizer, SavesTheInnerOptimizerAndTheOpenWindow) {
  const Rows rows = make_rows();
  const auto run = [&](bool interrupted) {
    torch::nn::Sequential model = make_model();
    torch::optim::AdamW adamw = make_adamw(model), adamw_resumed = make_adamw(model);
    AccumulatingOptimizer first(adamw, {.batch = Samples{kRows}});
    first.backward(loss_of(model, rows), Samples{kRows});
    first.step();
    first.backward(loss_of(model, rows.slice(0, 5)), Samples{5});
    std::stringstream file;
    torch::save(first, file);
    if (!interrupted) {
      first.backward(loss_of(model, rows.slice(5, kRows)), Samples{kRows - 5});
      first.step();
      return testing::copies(model->parameters());
    }
    first.accumulator().discard();
    AccumulatingOptimizer second(adamw_resumed, {.batch = Samples{kRows}});
    torch::load(second, file);
    second.backward(loss_of(model, rows.slice(5, kRows)), Samples{kRows - 5});
    second.step();
    EXPECT_EQ(second.last_report().step, 2);
    return testing::copies(model->parameters());
  };
  EXPECT_TRUE(testing::same_bits(run(false), run(true)));
}

TEST(Accumulate, TakesATorchModuleAndARangeOfMicroBatches) {
  torch::nn::Sequential model = make_model();
  const Rows rows = make_rows();
  std::vector<Rows> micros;
  for (const auto& [from, to] : kSplit) micros.push_back(rows.slice(from, to));
  const Accumulated result = accumulate(model, micros, loss_of);
  const Loss all = loss_of(model, rows);
  const auto expected = torch::autograd::grad({all.sum / all.weight}, model->parameters());
  ASSERT_EQ(result.gradients.size(), expected.size());
  EXPECT_EQ(result.gradients[0].name, "0.weight");
  EXPECT_NEAR(result.loss_sum, all.sum.item<double>(), 1e-10);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(testing::relative_error(result.gradients[i].tensor, expected[i]), 1e-12);
}

}  // namespace
}  // namespace accrue
