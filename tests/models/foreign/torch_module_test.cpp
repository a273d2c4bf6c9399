#include "accrue/models/torch_module.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "accrue/models/normalisation.h"
#include "models/image_support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::relative_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace models::testing;

/// Contains a batch norm that no cut can reach.
struct HiddenImpl : torch::nn::Module {
  HiddenImpl() {
    norm = register_module("norm", torch::nn::BatchNorm2d(3));
    drop = register_module("drop", torch::nn::Dropout(0.5));
  }
  at::Tensor forward(const at::Tensor& x) { return x + drop(norm(x)); }
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout drop{nullptr};
};
TORCH_MODULE(Hidden);

torch::nn::Sequential network() {
  at::manual_seed(3);
  torch::nn::Sequential net;
  net->push_back("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 8, 3).padding(1)));
  net->push_back("norm", torch::nn::BatchNorm2d(8));
  net->push_back("relu", torch::nn::ReLU(torch::nn::ReLUOptions(true)));
  net->push_back("flat", torch::nn::Flatten());
  net->push_back("norm1", torch::nn::BatchNorm1d(8 * 4 * 4));
  net->push_back("fc", torch::nn::Linear(8 * 4 * 4, tiny_classes));
  net->to(at::kDouble);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : net->parameters()) parameter.add_(at::randn_like(parameter), 0.1);
  return net;
}

at::Tensor reference_loss(torch::nn::Sequential& net, const batch::MicroBatch& micro) {
  return at::cross_entropy_loss(net->forward(micro.inputs.to(at::kDouble)), micro.targets, {},
                                at::Reduction::Sum, -100);
}

TEST(FromSequential, IsTheNetworkCutAtItsBatchNorms) {
  torch::nn::Sequential net = network(), same = network();
  const auto model = from_sequential(net, class_cross_entropy, "net");
  const batch::MicroBatch micro = random_images(tiny_image, tiny_classes, 6);
  const at::Tensor expected = reference_loss(same, micro);
  expected.backward();
  EXPECT_LT(relative_error(forward(*model, micro, context_of(micro)).sum, expected), 1e-13);
  EXPECT_THAT(find_batch_norms(*model).cut, ElementsAre("norm", "norm1"));
  EXPECT_TRUE(find_batch_norms(*model).uncut.empty());
  EXPECT_EQ(model->segments().size(), 3U);
  for (const auto& buffer : same->named_buffers()) {
    const at::Tensor moved = net->named_buffers()[buffer.key()].to(at::kDouble);
    EXPECT_LT(relative_error(moved, buffer.value()), 1e-13) << buffer.key();
  }
  for (const auto& [name, gradient] : gradients_of(*model, micro))
    EXPECT_LT(relative_error(gradient, same->named_parameters()[name].grad()), 1e-11) << name;

  ForwardContext context = context_of(micro);
  context.training = false;
  torch::nn::Sequential evaluated = network();
  from_sequential(evaluated, class_cross_entropy, "net");
  evaluated->eval();
  EXPECT_LT(
      relative_error(
          evaluate(*from_sequential(network(), class_cross_entropy, "net"), micro, context).sum,
          reference_loss(evaluated, micro)),
      1e-13);
}

TEST(FromSequential, ReportsWhatIsInsideModulesThatCannotBeCut) {
  torch::nn::Sequential net(
      torch::nn::Conv2d(2, 3, 3), torch::nn::BatchNorm2d(3), Hidden(),
      torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(3).momentum(std::nullopt)));
  const auto model = from_sequential(net, class_cross_entropy, "net");
  const std::vector<ForeignLayer> layers = model->foreign_layers();
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_EQ(layers[0].name, "2.norm");
  EXPECT_EQ(layers[1].name, "2.drop");
  EXPECT_EQ(layers[1].kind, ForeignLayer::Kind::dropout);
  EXPECT_EQ(layers[2].name, "3");
  EXPECT_THAT(layers[0].reason, HasSubstr("module 2"));
  EXPECT_THAT(message_of([&] { check_batch_norms(*model, BatchNormPolicy::exact); }),
              HasSubstr("2.norm"));
}

TEST(FromSequential, ItsDropoutDoesNotDependOnTheSplit) {
  torch::nn::Sequential net(torch::nn::Conv2d(2, 3, 3), torch::nn::Dropout(0.4),
                            torch::nn::Flatten(), torch::nn::Dropout(0.4),
                            torch::nn::Linear(12, tiny_classes));
  net->to(at::kDouble);
  const auto model = from_sequential(net, class_cross_entropy, "net");
  EXPECT_TRUE(model->foreign_layers().empty());
  const batch::MicroBatch micro = random_images(tiny_image, tiny_classes, 5);
  const double whole = forward(*model, micro, context_of(micro)).sum.item<double>();
  double sum = 0;
  for (const auto& [begin, end] : {std::pair(0, 2), std::pair(2, 5)}) {
    batch::MicroBatch part;
    part.inputs = micro.inputs.slice(0, begin, end);
    part.targets = micro.targets.slice(0, begin, end);
    part.sample_ids.assign(micro.sample_ids.begin() + begin, micro.sample_ids.begin() + end);
    sum += forward(*model, part, context_of(part)).sum.item<double>();
  }
  EXPECT_NEAR(sum, whole, 1e-12 * whole);
  ForwardContext other = context_of(micro);
  other.window += 1;
  EXPECT_GT(std::abs(forward(*model, micro, other).sum.item<double>() - whole), 1e-6);
}

TEST(FromModule, RunsAsOneSegmentAndCanBeRepeatedToTheBit) {
  Hidden hidden;
  hidden->to(at::kDouble);
  const auto model = from_module(
      hidden.ptr(),
      [hidden](const batch::MicroBatch& micro) mutable {
        return hidden(micro.inputs.to(at::kDouble)).mean({2, 3});
      },
      class_cross_entropy, "hidden");
  batch::MicroBatch micro = random_images({3, 4, 4}, 3, 5);
  EXPECT_EQ(model->segments().size(), 1U);
  EXPECT_EQ(model->foreign_layers().size(), 2U);
  const auto loss = [&](const ForwardContext& context) {
    return forward(*model, micro, context).sum.item<double>();
  };
  ForwardContext context = context_of(micro);
  const double first = loss(context);
  EXPECT_EQ(loss(context), first);
  context.seed += 1;
  EXPECT_NE(loss(context), first);
}

TEST(FromSequential, RefusesANetworkWithoutModules) {
  EXPECT_THAT(
      message_of([] { from_sequential(torch::nn::Sequential(), class_cross_entropy, "net"); }),
      HasSubstr("at least one module"));
}

TEST(Normalisation, GroupsFollowTheChannels) {
  EXPECT_EQ(groups_of(Norm::group, 64), 16);
  EXPECT_EQ(groups_of(Norm::group, 128), 32);
  EXPECT_EQ(groups_of(Norm::group, 160), 32);
  EXPECT_EQ(groups_of(Norm::group, 16), 4);
  EXPECT_EQ(groups_of(Norm::group, 7), 1);
  EXPECT_EQ(groups_of(Norm::group, 2), 1);
  EXPECT_EQ(groups_of(Norm::layer, 64), 1);
  EXPECT_EQ(groups_of(Norm::instance, 6), 6);
  EXPECT_THAT(message_of([] { groups_of(Norm::batch, 6); }), HasSubstr("batch"));
}

TEST(Normalisation, PoliciesAreNamedAsTheConfigDoes) {
  EXPECT_EQ(batch_norm_policy_words.find("exact"), BatchNormPolicy::exact);
  EXPECT_EQ(norm_of(*batch_norm_policy_words.find("convert-group")), Norm::group);
  EXPECT_EQ(norm_of(*batch_norm_policy_words.find("convert-layer")), Norm::layer);
  EXPECT_EQ(norm_of(*batch_norm_policy_words.find("convert-instance")), Norm::instance);
  EXPECT_EQ(norm_of(*batch_norm_policy_words.find("micro")), Norm::batch);
  EXPECT_EQ(batch_norm_policy_words.find("sync"), std::nullopt);
}

TEST(Normalisation, ErrorExplainsTheChoicesAndTheOthersPass) {
  const auto model = from_sequential(network(), class_cross_entropy, "net");
  const std::string message =
      message_of([&] { check_batch_norms(*model, BatchNormPolicy::error); });
  EXPECT_THAT(message, HasSubstr("2 batch normalisations (the first is norm)"));
  EXPECT_THAT(message, HasSubstr("model.batchnorm = \"exact\""));
  check_batch_norms(*model, BatchNormPolicy::exact);
  check_batch_norms(*model, BatchNormPolicy::micro);
  EXPECT_THAT(message_of([&] { check_batch_norms(*model, BatchNormPolicy::convert_layer); }),
              HasSubstr("made without them"));
}

TEST(Normalisation, ConvertedNetworksKeepWeightsAndTreatSamplesApart) {
  torch::nn::Sequential net = network();
  for (const Norm norm : {Norm::group, Norm::layer}) {
    torch::nn::Sequential converted = convert_batch_norms(net, norm);
    const auto model = from_sequential(converted, class_cross_entropy, "net");
    EXPECT_TRUE(find_batch_norms(*model).none());
    ASSERT_EQ(model->parameters().size(), net->named_parameters().size());
    for (const auto& [name, tensor] : model->parameters())
      EXPECT_TRUE(at::equal(tensor, net->named_parameters()[name])) << name;

    const at::Tensor x = at::randn({3, 2, 4, 4}, at::kDouble);
    const at::Tensor hidden = at::conv2d(x, net->named_parameters()["conv.weight"],
                                         net->named_parameters()["conv.bias"], 1, 1);
    const auto parameters = net->named_parameters();
    at::Tensor y = at::relu(at::group_norm(hidden, groups_of(norm, 8), parameters["norm.weight"],
                                           parameters["norm.bias"], 1e-5));
    y = at::group_norm(y.flatten(1), groups_of(norm, 128), parameters["norm1.weight"],
                       parameters["norm1.bias"], 1e-5);
    y = at::linear(y, parameters["fc.weight"], parameters["fc.bias"]);
    EXPECT_LT(relative_error(converted->forward(x), y), 1e-13);
    EXPECT_LT(relative_error(converted->forward(x.narrow(0, 1, 1)), y.narrow(0, 1, 1)), 1e-12);
    EXPECT_GT(relative_error(net->forward(x), y), 1e-3);
  }
  EXPECT_THAT(message_of([&] { convert_batch_norms(net, Norm::instance); }), HasSubstr("norm1"));
  EXPECT_THAT(message_of([&] { convert_batch_norms(net, Norm::batch); }), HasSubstr("batch"));
}

}  // namespace
}  // namespace accrue::models
