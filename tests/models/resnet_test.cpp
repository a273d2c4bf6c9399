#include "accrue/models/resnet.h"

#include "image_support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::relative_error;
using accrue::testing::tolerance;
using ::testing::HasSubstr;
using namespace models::testing;

ResNetOptions small_resnet(Norm norm = Norm::batch, Compute compute = Compute::fp64) {
  return {
      .layers = 8, .width = 4, .classes = 5, .image = {3, 9, 12}, .norm = norm, .compute = compute};
}

batch::MicroBatch images_for(const ResNetOptions& options, std::int64_t samples) {
  return random_images(options.image, options.classes, samples);
}

/// The network as torchvision writes it, block by block, over tensors by their names in files.
struct ReferenceResNet {
  TensorsByName tensors;
  Norm norm;
  std::int64_t blocks;
  bool training = true;

  at::Tensor normalise(const std::string& name, const at::Tensor& x) const {
    const at::Tensor &weight = tensors.at(name + ".weight"), &bias = tensors.at(name + ".bias");
    if (norm != Norm::batch)
      return at::group_norm(x, groups_of(norm, x.size(1)), weight, bias, 1e-5);
    return at::batch_norm(x, weight, bias, tensors.at(name + ".running_mean").detach(),
                          tensors.at(name + ".running_var").detach(), training, 0.1, 1e-5, false);
  }

  at::Tensor block(const std::string& name, const at::Tensor& x, std::int64_t stride) const {
    at::Tensor y = at::conv2d(x, tensors.at(name + ".conv1.weight"), {}, stride, 1);
    y = at::relu(normalise(name + ".bn1", y));
    y = normalise(name + ".bn2", at::conv2d(y, tensors.at(name + ".conv2.weight"), {}, 1, 1));
    at::Tensor shortcut = x;
    if (tensors.contains(name + ".downsample.0.weight"))
      shortcut = normalise(name + ".downsample.1",
                           at::conv2d(x, tensors.at(name + ".downsample.0.weight"), {}, stride));
    return at::relu(y + shortcut);
  }

  at::Tensor loss(const batch::MicroBatch& micro) const {
    at::Tensor x = at::conv2d(micro.inputs.to(at::kDouble), tensors.at("conv1.weight"), {}, 1, 1);
    x = at::relu(normalise("bn1", x));
    for (int stage = 1; stage <= 3; ++stage)
      for (std::int64_t i = 0; i < blocks; ++i)
        x = block("layer" + std::to_string(stage) + '.' + std::to_string(i), x,
                  stage > 1 && i == 0 ? 2 : 1);
    x = at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    x = at::linear(x, tensors.at("fc.weight"), tensors.at("fc.bias"));
    return at::cross_entropy_loss(x, micro.targets, {}, at::Reduction::Sum, -100);
  }
};

ReferenceResNet reference_of(const ResNet& model) {
  return {double_leaves(model), model.options().norm, (model.options().layers - 2) / 6};
}

double worst_gradient_error(ResNet& model, const batch::MicroBatch& micro) {
  const ReferenceResNet reference = reference_of(model);
  reference.loss(micro).backward();
  double worst = 0;
  for (const auto& [name, gradient] : gradients_of(model, micro))
    worst = std::max(worst, relative_error(gradient, reference.tensors.at(name).grad()));
  return worst;
}

constexpr std::int64_t resnet_terms =
    6 * 9 * 12 * 9 * 16;  ///< pixels of the batch, kernel, channels

TEST(ResNet, LossAndGradientsAreThoseOfThePlainNetworkWithEveryNorm) {
  for (const Norm norm : {Norm::batch, Norm::group, Norm::layer, Norm::instance})
    for (const std::int64_t layers : {8, 14}) {
      ResNetOptions options = small_resnet(norm);
      options.layers = layers;
      ResNet model(options);
      perturb(model);
      const batch::MicroBatch micro = images_for(options, 6);
      const ReferenceResNet reference = reference_of(model);
      const Loss loss = forward(model, micro, context_of(micro));
      EXPECT_EQ(loss.weight, 5);
      EXPECT_LT(relative_error(loss.sum, reference.loss(micro)), 1e-12);
      EXPECT_LT(worst_gradient_error(model, micro), 1e-11);
    }
}

TEST(ResNet, GradientsInFp32AreWithinRounding) {
  ResNet model(small_resnet(Norm::batch, Compute::fp32));
  const batch::MicroBatch micro = images_for(model.options(), 6);
  EXPECT_LT(worst_gradient_error(model, micro), tolerance(at::kFloat).bound(resnet_terms));
}

TEST(ResNet, TheComparisonSeesAWrongParameterAndAWrongNorm) {
  ResNet model(small_resnet());
  perturb(model);
  const batch::MicroBatch micro = images_for(model.options(), 6);
  ReferenceResNet reference = reference_of(model);
  const at::Tensor loss = forward(model, micro, context_of(micro)).sum;
  reference.norm = Norm::instance;
  EXPECT_GT(relative_error(loss, reference.loss(micro)), 1e-3);
  reference.norm = Norm::batch;
  reference.tensors["layer2.0.downsample.0.weight"] =
      reference.tensors["layer2.0.downsample.0.weight"] + 0.01;
  EXPECT_GT(relative_error(loss, reference.loss(micro)), 1e-7);
}

TEST(ResNet, RunningStatisticsMoveInTrainingAndServeInEvaluation) {
  ResNet model(small_resnet());
  const batch::MicroBatch micro = images_for(model.options(), 6);
  ReferenceResNet reference = reference_of(model);
  forward(model, micro, context_of(micro));
  reference.loss(micro);
  for (const auto& [name, tensor] : model.buffers()) {
    if (name.ends_with("num_batches_tracked"))
      EXPECT_EQ(tensor.item<std::int64_t>(), 1) << name;
    else
      EXPECT_LT(relative_error(tensor, reference.tensors.at(name)), 1e-12) << name;
  }
  ForwardContext context = context_of(micro);
  context.training = false;
  reference.training = false;
  EXPECT_LT(relative_error(evaluate(model, micro, context).sum, reference.loss(micro)), 1e-12);
}

TEST(ResNet, IsCutAtItsBatchNormsTwoOfThemWhereAShortcutHasItsOwn) {
  const auto sites = [](const ResNetOptions& options) {
    ResNet model(options);
    std::vector<std::size_t> counts;
    for (const Segment& segment : model.segments()) counts.push_back(segment.batch_norms.size());
    return counts;
  };
  EXPECT_EQ(sites(small_resnet()), (std::vector<std::size_t>{0, 1, 1, 1, 1, 2, 1, 2}));
  EXPECT_EQ(sites(small_resnet(Norm::group)), std::vector<std::size_t>(8, 0));
  ResNetOptions deep = small_resnet();
  deep.layers = 20;
  ResNet model(deep);
  EXPECT_EQ(find_batch_norms(model).cut.size(), 19U + 2);
}

TEST(ResNet, HasTheShapeOfThePaper) {
  // ResNet-20 for CIFAR-10: 0.27 M parameters, 41 M multiplications (arXiv:1512.03385, table 6).
  const ResNet model(ResNetOptions{.layers = 20});
  EXPECT_NEAR(static_cast<double>(parameter_count(model)), 0.27e6, 0.005e6);
  EXPECT_NEAR(static_cast<double>(model.flops_per_sample()) / 6, 41e6, 1e6);
}

TEST(ResNet, WeightsOfSamplesCount) {
  ResNet model(small_resnet(Norm::group));
  batch::MicroBatch micro = images_for(model.options(), 4);
  micro.weights = at::tensor({0.5, 2.0, 7.0, 0.0}).to(at::kFloat);
  const Loss weighted = forward(model, micro, context_of(micro));
  EXPECT_DOUBLE_EQ(weighted.weight, 2.5);  // the third has no label
  double expected = 0;
  for (const std::int64_t i : {0, 1}) {
    batch::MicroBatch one = micro;
    one.inputs = micro.inputs.narrow(0, i, 1);
    one.targets = micro.targets.narrow(0, i, 1);
    one.weights.reset();
    one.sample_ids = {micro.sample_ids[static_cast<std::size_t>(i)]};
    expected += (i == 0 ? 0.5 : 2.0) * forward(model, one, context_of(one)).sum.item<double>();
  }
  EXPECT_NEAR(weighted.sum.item<double>(), expected, 1e-12 * expected);
}

TEST(ResNet, FileTensorsComeBackAndMisfitsAreNamed) {
  ResNet model(small_resnet()), other([] {
    ResNetOptions options = small_resnet();
    options.seed = 3;
    return options;
  }());
  const batch::MicroBatch micro = images_for(model.options(), 4);
  forward(model, micro, context_of(micro));
  NamedParameters tensors;
  for (const auto& [name, tensor] : model.file_tensors()) tensors.push_back({name, tensor.clone()});
  other.load_file_tensors(tensors, "a test");
  for (std::size_t i = 0; i < tensors.size(); ++i)
    EXPECT_TRUE(at::equal(tensors[i].tensor, other.file_tensors()[i].tensor)) << tensors[i].name;

  const at::Tensor before = other.parameters().front().tensor.clone();
  const auto message = [&](const std::function<void(NamedParameters&)>& change) {
    NamedParameters changed;
    for (const auto& [name, tensor] : tensors) changed.push_back({name, tensor + 1});
    change(changed);
    return message_of([&] { other.load_file_tensors(changed, "weights.safetensors"); });
  };
  EXPECT_THAT(message([](auto& t) { t.pop_back(); }), HasSubstr("num_batches_tracked"));
  EXPECT_THAT(message([](auto& t) {
                t.push_back({"extra", at::ones({1})});
              }),
              HasSubstr("\"extra\""));
  EXPECT_THAT(message([](auto& t) { t.push_back(t.front()); }), HasSubstr("twice"));
  EXPECT_THAT(message([](auto& t) { t[1].tensor = at::ones({9}); }), HasSubstr("shape [4]"));
  EXPECT_THAT(message([](auto& t) { t[1].tensor = at::ones({4}, at::kLong); }),
              HasSubstr("floating-point"));
  EXPECT_TRUE(at::equal(other.parameters().front().tensor, before));
}

TEST(ResNet, InitialisationFollowsSeedAndName) {
  const ResNet wide(small_resnet(Norm::batch, Compute::fp64)),
      narrow(small_resnet(Norm::group, Compute::fp32));
  for (std::size_t i = 0; i < wide.parameters().size(); ++i)
    EXPECT_TRUE(
        at::equal(wide.parameters()[i].tensor.to(at::kFloat), narrow.parameters()[i].tensor))
        << wide.parameters()[i].name;
  ResNetOptions options = small_resnet();
  options.width = 16;
  const ResNet model(options);
  for (const auto& [name, tensor] : model.parameters()) {
    if (tensor.dim() != 4) continue;
    const double fan_out = static_cast<double>(tensor.size(0) * tensor.size(2) * tensor.size(3));
    const double expected = std::sqrt(2 / fan_out);
    const double allowed = 5 / std::sqrt(2.0 * static_cast<double>(tensor.numel()));
    EXPECT_NEAR(tensor.std(false).item<double>(), expected, expected * allowed) << name;
  }
}

TEST(ResNet, RefusesOptionsAndInputsThatDoNotFit) {
  const auto message = [](const std::function<void(ResNetOptions&)>& change) {
    ResNetOptions options = small_resnet();
    change(options);
    return message_of([&] { const ResNet model(options); });
  };
  EXPECT_THAT(message([](auto& o) { o.layers = 2; }), HasSubstr("model.layers"));
  EXPECT_THAT(message([](auto& o) { o.layers = 18; }), HasSubstr("model.layers=20"));
  EXPECT_THAT(message([](auto& o) { o.layers = INT64_MAX; }), HasSubstr("model.layers"));
  EXPECT_THAT(message([](auto& o) { o.width = 0; }), HasSubstr("model.width"));
  EXPECT_THAT(message([](auto& o) { o.classes = 0; }), HasSubstr("model.vocab"));
  EXPECT_THAT(message([](auto& o) { o.image[1] = 7; }), HasSubstr("image height"));
  EXPECT_THAT(message([](auto& o) { o.compute = Compute::bf16; }), HasSubstr("precision.compute"));

  ResNet model(small_resnet());
  batch::MicroBatch micro = images_for(model.options(), 2);
  micro.targets[1] = 5;
  EXPECT_THAT(message_of([&] { forward(model, micro, context_of(micro)); }), HasSubstr("[0, 5)"));
  micro.inputs = at::ones({2, 1, 9, 12});
  EXPECT_THAT(message_of([&] { forward(model, micro, context_of(micro)); }),
              HasSubstr("[B, 3, 9, 12]"));
}

TEST(ResNet, TakesImagesOfAnySizeFromEight) {
  for (const auto& [height, width] : {std::pair(8, 8), std::pair(11, 9), std::pair(33, 17)}) {
    ResNetOptions options = small_resnet();
    options.image = {1, height, width};
    ResNet model(options);
    const batch::MicroBatch micro = images_for(options, 3);
    EXPECT_LT(relative_error(forward(model, micro, context_of(micro)).sum,
                             reference_of(model).loss(micro)),
              1e-12);
  }
}

}  // namespace
}  // namespace accrue::models
