#include "accrue/accum/batch_norms.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "accrue/accum/accumulator.h"
#include "support/errors.h"

namespace accrue::accum {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

torch::nn::ModuleList network() {
  torch::nn::Sequential inner(torch::nn::BatchNorm2d(3), torch::nn::InstanceNorm2d(3));
  torch::nn::BatchNorm2d without(torch::nn::BatchNorm2dOptions(3).track_running_stats(false));
  return torch::nn::ModuleList(torch::nn::Conv2d(3, 3, 1), inner, torch::nn::GroupNorm(1, 3),
                               without);
}

TEST(BatchNorms, AreFoundByKindAtAnyDepth) {
  EXPECT_THAT(batch_norms_of(*network()), ElementsAre("1.0", "3"));
}

TEST(BatchNorms, InEvaluationOnlyThoseWithoutRunningStatisticsCount) {
  torch::nn::ModuleList model = network();
  EXPECT_THAT(batch_norms_in_training(*model), ElementsAre("1.0", "3"));
  model->eval();
  EXPECT_THAT(batch_norms_in_training(*model), ElementsAre("3"));
}

TEST(BatchNorms, OfTorchScriptAreFoundByTheClassTheyWereScriptedFrom) {
  torch::jit::Module layer("__torch__.torch.nn.modules.batchnorm.___torch_mangle_3.BatchNorm2d");
  torch::jit::Module linear("__torch__.torch.nn.modules.linear.Linear");
  torch::jit::Module model("__torch__.Network");
  for (torch::jit::Module* module : {&layer, &linear, &model})
    module->register_attribute("training", c10::BoolType::get(), true);
  model.register_module("first", linear);
  model.register_module("second", layer);
  EXPECT_THAT(batch_norms_in_training(model), ElementsAre("second"));
  model.train(false);
  EXPECT_THAT(batch_norms_in_training(model), ElementsAre());
}

TEST(AccumulatorNames, AreThoseOfTheModelHoweverItIsGiven) {
  torch::nn::Sequential model(torch::nn::Linear(2, 2), torch::nn::Linear(2, 1));
  const auto first_name = [](const Accumulator& accumulator) {
    return accumulator.current_window().buffer()->entries().front().name;
  };
  EXPECT_EQ(first_name(Accumulator(model)), "0.weight");
  EXPECT_EQ(first_name(Accumulator(*model)), "0.weight");
  EXPECT_EQ(first_name(Accumulator(model->named_parameters())), "0.weight");
  EXPECT_EQ(first_name(Accumulator(model->parameters())), "0");
}

TEST(AccumulatorNames, AreInItsErrors) {
  torch::nn::Sequential model(torch::nn::Linear(2, 2), torch::nn::Linear(2, 1));
  Accumulator accumulator(model);
  const auto backward = [&] {
    const torch::Tensor out = model->forward(torch::ones({3, 2}));
    accumulator.backward({out.sum(), 3.0});
  };
  backward();
  model->named_parameters()["1.weight"].mutable_grad().zero_();
  EXPECT_THAT(testing::usage_message(backward), HasSubstr("'1.weight'"));
}

}  // namespace
}  // namespace accrue::accum
