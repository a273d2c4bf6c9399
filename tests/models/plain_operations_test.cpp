// Models with ATen's plain operators agree with models with accrue's kernels.

#include "kernels/plain/plain_operations.h"

#include <torch/csrc/autograd/autograd.h>

#include "accrue/models/vit.h"
#include "support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::relative_error;
using accrue::testing::tolerance;
using namespace models::testing;

struct PassResult {
  Loss loss;
  std::vector<at::Tensor> gradients;
};

PassResult run(Trainable& model, const batch::MicroBatch& micro, ForwardContext context,
               const kernels::Operations& operations) {
  context.operations = &operations;
  PassResult result{.loss = forward(model, micro, context)};
  std::vector<at::Tensor> leaves;
  for (const NamedParameter& parameter : model.parameters()) leaves.push_back(parameter.tensor);
  result.gradients = torch::autograd::grad({result.loss.sum}, leaves);
  return result;
}

/// Biases and norms start at values that would hide an omission of them.
void move_all(Trainable& model) {
  const at::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  for (const NamedParameter& parameter : model.parameters())
    at::Tensor(parameter.tensor)
        .add_(at::randn(parameter.tensor.sizes(), generator, parameter.tensor.options()), 0.1);
}

double projection(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.flatten().to(at::kDouble), e = expected.flatten().to(at::kDouble);
  return (a.dot(e) / e.dot(e)).item<double>();
}

/// Expects the same loss and gradient of each parameter, to the tolerance of `dtype`.
void expect_the_same(Trainable& model, const batch::MicroBatch& micro,
                     const ForwardContext& context, at::ScalarType dtype) {
  move_all(model);
  const PassResult native = run(model, micro, context, kernels::native_operations());
  const PassResult plain = run(model, micro, context, kernels::plain_operations());
  EXPECT_EQ(native.loss.weight, plain.loss.weight);
  EXPECT_LE(relative_error(native.loss.sum, plain.loss.sum), tolerance(dtype).bound(small_terms));
  const NamedParameters parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(plain.gradients[i].scalar_type(), parameters[i].tensor.scalar_type());
    EXPECT_LE(relative_error(native.gradients[i], plain.gradients[i]),
              tolerance(dtype).bound(small_terms))
        << parameters[i].name;
    if (plain.gradients[i].norm().item<double>() > 0) {
      EXPECT_NEAR(projection(native.gradients[i], plain.gradients[i]), 1, 0.01)
          << parameters[i].name;
    }
  }
}

at::ScalarType dtype_of(Compute compute) {
  return compute == Compute::fp64   ? at::kDouble
         : compute == Compute::bf16 ? at::kBFloat16
                                    : at::kFloat;
}

TEST(PlainOperations, AreTheKernelsOfAGpt2) {
  for (const Compute compute : {Compute::fp64, Compute::fp32, Compute::bf16})
    for (const double dropout : {0.0, 0.3})
      for (const bool fused : {true, false}) {
        SCOPED_TRACE(std::string(to_string(compute)) + ", dropout " + std::to_string(dropout));
        Gpt2Options options = small(compute);
        options.dropout = dropout;
        options.fused_loss = fused;
        options.loss = {.label_smoothing = 0.1, .z_loss = 1e-3};
        Gpt2 model(options);
        const batch::MicroBatch micro = random_batch(options, 3, 11);
        expect_the_same(model, micro, context_of(micro), dtype_of(compute));
      }
}

TEST(PlainOperations, KeepSamplesOfARowApart) {
  for (const double dropout : {0.0, 0.3}) {
    Gpt2Options options = small();
    options.dropout = dropout;
    Gpt2 model(options);
    batch::MicroBatch micro = random_batch(options, 2, 20);
    micro.sample_ids = {4, 9, 2};
    micro.spans = {{4, 0, 1, 9}, {9, 0, 9, 20}, {2, 1, 0, 12}};
    micro.targets[1].slice(0, 12).fill_(-100);
    micro.targets[0].slice(0, 0, 1).fill_(-100);
    ForwardContext context = context_of(micro);
    context.spans = micro.spans;
    expect_the_same(model, micro, context, at::kDouble);
  }
}

TEST(PlainOperations, AreTheKernelsOfAViT) {
  for (const Compute compute : {Compute::fp64, Compute::bf16}) {
    VitOptions options;
    options.layers = 2;
    options.heads = 2;
    options.width = 16;
    options.patches = 4;
    options.image = {3, 8, 8};
    options.classes = 5;
    options.dropout = 0.2;
    options.compute = compute;
    Vit model(options);
    batch::MicroBatch micro;
    micro.inputs = at::randn({3, 3, 8, 8});
    micro.targets = at::tensor({0, 4, 2}, at::kLong);
    micro.sample_ids = {5, 1, 8};
    expect_the_same(model, micro, context_of(micro), dtype_of(compute));
  }
}

/// The control: with another mask the two kinds of operations differ.
TEST(PlainOperations, AnotherMaskIsSeen) {
  Gpt2Options options = small();
  options.dropout = 0.3;
  Gpt2 model(options);
  const batch::MicroBatch micro = random_batch(options, 2, 8);
  ForwardContext context = context_of(micro);
  const PassResult native = run(model, micro, context, kernels::native_operations());
  context.window += 1;
  const PassResult plain = run(model, micro, context, kernels::plain_operations());
  EXPECT_GT(relative_error(native.loss.sum, plain.loss.sum), 1e-6);
}

}  // namespace
}  // namespace accrue::models
