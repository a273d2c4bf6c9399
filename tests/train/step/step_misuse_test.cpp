// Messages of the functional forms about arguments that they cannot use. Compiler errors are tested
// in tests/consumer.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>
#include <thread>

#include "accrue/train/coupled_step.h"
#include "accrue/train/step.h"
#include "support/errors.h"
#include "train/regression.h"

namespace accrue {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Regression;
using testing::usage_message;
using testing::weighted_error;

std::string message_of(const std::vector<torch::Tensor>& batch, const StepOptions& options = {}) {
  Regression r;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  return usage_message([&] { step(r.model, optimizer, batch, weighted_error, options); });
}

TEST(StepMisuse, ABatchWithoutSamplesIsNamed) {
  const torch::Tensor none = torch::empty({0, 4}, torch::kDouble);
  EXPECT_THAT(message_of({none, none, none}),
              AllOf(HasSubstr("accrue::step: expected a batch of at least one sample, received 0"),
                    HasSubstr("empty batches")));
}

TEST(StepMisuse, AVectorWithoutTensorsIsNamed) {
  EXPECT_THAT(message_of({}), AllOf(HasSubstr("the samples in their first dimension"),
                                    HasSubstr("a vector without tensors")));
}

TEST(StepMisuse, ASingleNumberIsNoBatch) {
  EXPECT_THAT(message_of({torch::tensor(1.0)}),
              AllOf(HasSubstr("tensor 0 of no dimension"), HasSubstr("unsqueeze(0)")));
  Regression r;
  EXPECT_THAT(usage_message([] { batch_size(torch::tensor(1.0)); }), HasSubstr("unsqueeze(0)"));
  EXPECT_THAT(usage_message([] { batch_size(torch::Tensor()); }), HasSubstr("undefined"));
  EXPECT_EQ(batch_size(r.inputs), 13);
}

TEST(StepMisuse, TensorsOfUnequalNumbersOfSamplesAreNamed) {
  EXPECT_THAT(message_of({torch::ones({13, 4}), torch::ones({12, 1}), torch::ones({13, 1})}),
              HasSubstr("13 in tensor 0 and 12 in tensor 1"));
}

TEST(StepMisuse, ANegativeMicroBatchIsNamed) {
  Regression r;
  EXPECT_THAT(message_of(r.batch(), {.micro_batch = -1}),
              HasSubstr("expected micro_batch >= 0, received -1"));
}

TEST(StepMisuse, OfACoupledStepIsNamedAsThat) {
  Regression r;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  EXPECT_THAT(usage_message([&] {
                coupled_step(
                    r.model, optimizer, torch::empty({0, 4}, torch::kDouble),
                    [](auto& m, const torch::Tensor& slice) { return m->forward(slice); },
                    [](const torch::Tensor& all) { return all.var(); });
              }),
              HasSubstr("accrue::coupled_step: expected a batch of at least one sample"));
}

TEST(StepMisuse, AParameterIsCalledByItsName) {
  Regression r;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  std::vector<std::string> reasons;
  const auto spoiled = [&](torch::nn::Sequential& m, const std::vector<torch::Tensor>& micro) {
    Loss loss = weighted_error(m, micro);
    const torch::Tensor bias = m->named_parameters()["2.bias"];
    if (at::equal(micro[0][0], r.inputs[0])) loss.sum = loss.sum + at::sqrt(bias - bias).sum();
    return loss;
  };
  step(
      r.model, optimizer, r.batch(), spoiled,
      {.micro_batch = 5, .on_event = [&](const Event& event) { reasons.push_back(event.reason); }});
  ASSERT_EQ(reasons.size(), 1U);
  EXPECT_THAT(reasons[0], HasSubstr("the gradient of '2.bias' is not finite"));
}

TEST(StepMisuse, AStrayGradientIsCalledByItsName) {
  Regression r;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  const auto also_backward = [](torch::nn::Sequential& m, const std::vector<torch::Tensor>& micro) {
    m->named_parameters()["2.weight"].sum().backward();
    return weighted_error(m, micro);
  };
  EXPECT_THAT(
      usage_message(
          [&] { step(r.model, optimizer, r.batch(), also_backward, {.micro_batch = 5}); }),
      AllOf(HasSubstr("gradients left alone while the window is open"), HasSubstr("'2.weight'")));
}

TEST(StepMisuse, AStepOfAnotherOptimizerWithinIsNamed) {
  Regression r;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1), another(r.model->parameters(), 0.1);
  const auto also_steps = [&](torch::nn::Sequential& m, const std::vector<torch::Tensor>& micro) {
    another.step();
    return weighted_error(m, micro);
  };
  EXPECT_THAT(
      usage_message([&] { step(r.model, optimizer, r.batch(), also_steps, {.micro_batch = 5}); }),
      HasSubstr("a changed parameter, as by step() of an optimizer"));
}

TEST(StepMisuse, AModelThatWasConvertedIsNamed) {
  Regression r;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  Stepper stepper(r.model, optimizer, {.micro_batch = 5});
  stepper.step(r.batch(), weighted_error);
  r.model->to(torch::kFloat);
  const std::vector<torch::Tensor> batch{r.inputs.to(torch::kFloat), r.targets.to(torch::kFloat),
                                         r.weights.to(torch::kFloat)};
  EXPECT_THAT(usage_message([&] { stepper.step(batch, weighted_error); }),
              AllOf(HasSubstr("was Double"), HasSubstr("is Float"), HasSubstr("Stepper")));
}

TEST(StepMisuse, ASecondThreadIsNamed) {
  Regression r;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  Stepper stepper(r.model, optimizer, {.micro_batch = 13});
  std::string said;
  const auto asks_in_a_thread = [&](torch::nn::Sequential& m,
                                    const std::vector<torch::Tensor>& micro) {
    std::thread([&] {
      said = usage_message([&] { stepper.step(r.batch(), weighted_error); });
    }).join();
    return weighted_error(m, micro);
  };
  EXPECT_TRUE(stepper.step(r.batch(), asks_in_a_thread).stepped);
  EXPECT_THAT(said, HasSubstr("calls of one thread at a time to this Stepper"));
}

TEST(StepMisuse, AComplexLossIsNamed) {
  Regression r;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  const auto complex_loss = [](torch::nn::Sequential& m, const std::vector<torch::Tensor>& micro) {
    return Loss{m->forward(micro[0]).sum().to(torch::kComplexDouble), 1};
  };
  EXPECT_THAT(usage_message([&] { step(r.model, optimizer, r.batch(), complex_loss); }),
              HasSubstr("a real loss sum"));
  EXPECT_THAT(usage_message([&] {
                coupled_step(
                    r.model, optimizer, r.inputs,
                    [](auto& m, const torch::Tensor& slice) { return m->forward(slice); },
                    [](const torch::Tensor& all) { return all.sum().to(torch::kComplexDouble); },
                    {.micro_batch = 5});
              }),
              HasSubstr("a real loss sum"));
}

/// The reports of a Stepper with micro-batches of 5 samples for two steps.
template <class LossFn>
std::vector<std::string> told_of_steps(Regression& r, LossFn loss_fn) {
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  std::vector<std::string> names;
  Stepper stepper(r.model, optimizer, {.micro_batch = 5, .on_event = [&](const Event& event) {
                                         names.push_back(event.name);
                                       }});
  for (int i = 0; i < 2; ++i) stepper.step(r.batch(), loss_fn);
  return names;
}

TEST(StepMisuse, AMeanAndAParameterWithoutAGradientAreToldOnce) {
  using Micro = std::vector<torch::Tensor>;
  Regression r;
  EXPECT_TRUE(told_of_steps(r, weighted_error).empty());
  const auto mean = [](torch::nn::Sequential& m, const Micro& micro) {
    return Loss{(m->forward(micro[0]) - micro[1]).square().mean(), 1};
  };
  EXPECT_THAT(told_of_steps(r, mean), ::testing::ElementsAre("loss_weight"));
  r.model->push_back(torch::nn::Linear(1, 1));
  r.model->to(torch::kDouble);
  const auto without_last = [](torch::nn::Sequential& m, const Micro& micro) {
    torch::Tensor x = micro[0];
    for (std::size_t i = 0; i < 3; ++i)
      x = i == 1 ? x.tanh() : m->ptr<torch::nn::LinearImpl>(i)->forward(x);
    return Loss{(x - micro[1]).square().sum(), static_cast<double>(x.size(0))};
  };
  EXPECT_THAT(told_of_steps(r, without_last), ::testing::ElementsAre("unused"));
}

TEST(StepMisuse, ALossThatChangesAParameterIsNamedWithIt) {
  Regression r;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  const auto changes = [](torch::nn::Sequential& m, const std::vector<torch::Tensor>& micro) {
    {
      const torch::NoGradGuard no_grad;
      m->named_parameters()["2.weight"].mul_(1.5);
    }
    return weighted_error(m, micro);
  };
  EXPECT_THAT(
      usage_message([&] { step(r.model, optimizer, r.batch(), changes, {.micro_batch = 5}); }),
      HasSubstr("a changed parameter, as by step() of an optimizer: '2.weight'"));
}

/// The minimum of a user's model.
struct OwnModel {
  torch::Tensor weight = torch::ones({4, 1}, torch::kDouble).requires_grad_();
  std::vector<torch::Tensor> parameters() const { return {weight}; }
};

TEST(StepMisuse, ParametersWithoutNamesAreNumbered) {
  OwnModel model;
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  const auto also_backward = [](OwnModel& m, const torch::Tensor& slice) {
    m.weight.sum().backward();
    return Loss{slice.matmul(m.weight).sum(), static_cast<double>(slice.size(0))};
  };
  EXPECT_THAT(usage_message([&] {
                step(model, optimizer, torch::ones({3, 4}, torch::kDouble), also_backward,
                     {.micro_batch = 1});
              }),
              HasSubstr("'0'"));
}

}  // namespace
}  // namespace accrue
