// An Accumulator's messages about losses that it cannot differentiate.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "accrue/accum/accumulator.h"
#include "support/errors.h"

namespace accrue {
namespace {

namespace nn = torch::nn;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::usage_message;

nn::Sequential refusing_model() {
  nn::Sequential model(nn::Linear(4, 8), nn::Tanh(), nn::Linear(8, 1));
  model->to(at::kDouble);
  return model;
}

/// Two losses of one forward pass are one micro-batch.
TEST(RefusedLosses, OfOneForwardPassAreNamed) {
  nn::Sequential model = refusing_model();
  const at::Tensor x = torch::ones({6, 4}, torch::kDouble);
  Accumulator accumulator(model);
  const auto says = AllOf(HasSubstr("expected one loss for each forward pass"),
                          HasSubstr("their sum"), HasSubstr("expect()"));
  const at::Tensor out = model->forward(x);
  accumulator.backward({out.square().sum(), 6});
  EXPECT_THAT(usage_message([&] { accumulator.backward({out.abs().sum(), 6}); }), says);
  accumulator.discard();
  const Loss again{model->forward(x).square().sum(), 6};
  accumulator.backward(again);
  EXPECT_THAT(usage_message([&] { accumulator.backward(again); }), says);
  accumulator.discard();
  const at::Tensor hidden = model[0]->as<nn::Linear>()->forward(x).tanh();
  accumulator.backward({hidden.square().sum(), 6});
  EXPECT_THAT(usage_message([&] {
                accumulator.backward({model[2]->as<nn::Linear>()->forward(hidden).sum(), 6});
              }),
              says);
  accumulator.discard();
  EXPECT_THAT(usage_message([&] {
                accumulator.backward(std::vector<Loss>{{hidden.sum(), 6}, {hidden.abs().sum(), 6}});
              }),
              HasSubstr("one Loss of their sum"));
}

TEST(RefusedLosses, ThatAreNotRealAreNamed) {
  at::Tensor weight = torch::ones({4}, torch::kDouble).requires_grad_();
  Accumulator accumulator({weight});
  for (const at::ScalarType dtype : {at::kComplexFloat, at::kComplexDouble})
    EXPECT_THAT(
        usage_message([&] {
          accumulator.backward({weight.to(dtype).sum(), 4});
        }),
        AllOf(HasSubstr("expected a real loss sum"), HasSubstr("Complex"), HasSubstr("at::real")));
  EXPECT_THAT(usage_message([&] {
                accumulator.backward({weight.to(at::kLong).sum(), 4});
              }),
              HasSubstr("requires no gradient"));
  accumulator.discard();
  accumulator.backward({at::real(at::complex(weight, weight).square()).sum() + weight.sum(), 4});
  accumulator.step([](accum::MeanGradient&&) {});
  EXPECT_TRUE(at::equal(weight.grad(), at::full({4}, 0.25, at::kDouble))) << "re((w + iw)^2) = 0";
}

}  // namespace
}  // namespace accrue
