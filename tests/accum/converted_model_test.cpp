// A model that is moved or converted after its accumulator was made is refused by name.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "accrue/accum/accumulating_optimizer.h"
#include "accrue/accum/accumulator.h"
#include "accum/taken.h"
#include "support/errors.h"

namespace accrue {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kTake;
using testing::usage_message;

Loss converted_loss(torch::nn::Linear& model) {
  const at::Tensor x = torch::ones({2, 4}, model->weight.options().requires_grad(false));
  return {model->forward(x).square().sum(), 2};
}

TEST(ConvertedModel, IsRefusedWhereTheNextWindowOpens) {
  for (const at::ScalarType dtype : {at::kDouble, at::kBFloat16, at::kHalf}) {
    torch::nn::Linear model(4, 3);
    Accumulator accumulator(model);
    accumulator.backward(converted_loss(model));
    accumulator.step(kTake);
    model->to(dtype);
    EXPECT_THAT(usage_message([&] { accumulator.backward(converted_loss(model)); }),
                AllOf(HasSubstr("parameters as they were when it was made"),
                      HasSubstr("'weight', which was Float[3, 4] on cpu and is " +
                                std::string(c10::toString(dtype))),
                      HasSubstr("model->to(...) first")));
    EXPECT_FALSE(accumulator.pending());
    Accumulator anew(model);
    anew.backward(converted_loss(model));
    EXPECT_TRUE(anew.step(kTake).stepped) << "the old one is no hindrance";
  }
}

TEST(ConvertedModel, IsTakenWhereItIsAsItWasAgain) {
  torch::nn::Linear model(4, 3);
  Accumulator accumulator(model);
  model->to(at::kDouble);
  model->to(at::kFloat);
  accumulator.backward(converted_loss(model));
  EXPECT_TRUE(accumulator.step(kTake).stepped);
}

TEST(ConvertedModel, IsRefusedWithinAWindow) {
  torch::nn::Linear model(4, 3);
  Accumulator accumulator(model);
  accumulator.backward(converted_loss(model));
  model->to(at::kDouble);
  const auto says = AllOf(HasSubstr("a parameter that was moved or converted: 'weight'"),
                          HasSubstr("was Float[3, 4]"), HasSubstr("this window is lost"));
  EXPECT_THAT(usage_message([&] { accumulator.backward(converted_loss(model)); }), says);
  EXPECT_THAT(usage_message([&] { accumulator.step(kTake); }), says);
  accumulator.discard();
}

TEST(ConvertedModel, OfAnotherShapeIsRefused) {
  torch::nn::Linear model(4, 3);
  Accumulator accumulator(model);
  model->weight.set_data(torch::ones({5, 4}));
  EXPECT_THAT(usage_message([&] {
                accumulator.backward({model->weight.sum(), 2});
              }),
              HasSubstr("'weight', which was Float[3, 4] on cpu and is Float[5, 4] on cpu now"));
}

TEST(ConvertedModel, OfAWrappedOptimizerIsRefused) {
  torch::nn::Linear model(4, 3);
  torch::optim::SGD sgd(model->parameters(), 0.1);
  AccumulatingOptimizer optimizer(model, sgd, {.micro_batches = 2});
  model->to(at::kDouble);
  EXPECT_THAT(usage_message([&] { optimizer.backward(converted_loss(model)); }),
              HasSubstr("parameters as they were"));
}

}  // namespace
}  // namespace accrue
