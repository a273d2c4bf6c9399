#include "accrue/models/resnet.h"

#include "models/image_support.h"
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

/// A narrow network of the ImageNet shape.
ResNetOptions large_resnet(std::int64_t layers, Norm norm = Norm::batch,
                           Compute compute = Compute::fp64) {
  return {.layers = layers,
          .stem = Stem::conv7x7,
          .width = 4,
          .classes = 5,
          .image = {3, 40, 33},
          .norm = norm,
          .compute = compute};
}

batch::MicroBatch images_for(const ResNetOptions& options, std::int64_t samples) {
  return random_images(options.image, options.classes, samples);
}

/// The network as torchvision defines it, block by block, with tensors by their names in files.
struct ReferenceResNet {
  TensorsByName tensors;
  Norm norm;
  Stem stem;
  std::vector<std::int64_t> blocks;  ///< of each stage
  bool in_bf16 = false;
  bool training = true;

  at::Tensor normalise(const std::string& name, const at::Tensor& x) const {
    const at::Tensor &weight = tensors.at(name + ".weight"), &bias = tensors.at(name + ".bias");
    if (norm != Norm::batch)
      return at::group_norm(x, groups_of(norm, x.size(1)), weight, bias, 1e-5);
    return at::batch_norm(x, weight, bias, tensors.at(name + ".running_mean").detach(),
                          tensors.at(name + ".running_var").detach(), training, 0.1, 1e-5, false);
  }

  /// A convolution in fp64; in bf16 its operands are rounded to bf16, and so is the incoming
  /// gradient.
  at::Tensor convolve(const std::string& name, const at::Tensor& x, std::int64_t stride = 1,
                      std::int64_t padding = 0) const {
    const at::Tensor& weight = tensors.at(name + ".weight");
    if (!in_bf16) return at::conv2d(x, weight, {}, stride, padding);
    const at::Tensor y = at::conv2d(through(x), through(weight), {}, stride, padding);
    y.register_hook([](const at::Tensor& gradient) { return rounded(gradient); });
    return y;
  }

  static at::Tensor rounded(const at::Tensor& x) {
    return x.detach().to(at::kBFloat16).to(at::kDouble);
  }
  /// Rounded, with the gradient of the unrounded value.
  static at::Tensor through(const at::Tensor& x) { return x + (rounded(x) - x.detach()); }

  at::Tensor basic(const std::string& name, const at::Tensor& x, std::int64_t stride) const {
    const at::Tensor y =
        at::relu(normalise(name + ".bn1", convolve(name + ".conv1", x, stride, 1)));
    return normalise(name + ".bn2", convolve(name + ".conv2", y, 1, 1));
  }

  at::Tensor bottleneck(const std::string& name, const at::Tensor& x, std::int64_t stride) const {
    at::Tensor y = at::relu(normalise(name + ".bn1", convolve(name + ".conv1", x)));
    y = at::relu(normalise(name + ".bn2", convolve(name + ".conv2", y, stride, 1)));
    return normalise(name + ".bn3", convolve(name + ".conv3", y));
  }

  at::Tensor block(const std::string& name, const at::Tensor& x, std::int64_t stride) const {
    const at::Tensor y = tensors.contains(name + ".conv3.weight") ? bottleneck(name, x, stride)
                                                                  : basic(name, x, stride);
    at::Tensor shortcut = x;
    if (tensors.contains(name + ".downsample.0.weight"))
      shortcut = normalise(name + ".downsample.1", convolve(name + ".downsample.0", x, stride));
    return at::relu(y + shortcut);
  }

  at::Tensor loss(const batch::MicroBatch& micro) const {
    const bool is_large = stem == Stem::conv7x7;
    at::Tensor x =
        convolve("conv1", micro.inputs.to(at::kDouble), is_large ? 2 : 1, is_large ? 3 : 1);
    x = at::relu(normalise("bn1", x));
    if (is_large) x = at::max_pool2d(x, 3, 2, 1);
    for (std::size_t stage = 0; stage < blocks.size(); ++stage)
      for (std::int64_t i = 0; i < blocks[stage]; ++i)
        x = block("layer" + std::to_string(stage + 1) + '.' + std::to_string(i), x,
                  stage > 0 && i == 0 ? 2 : 1);
    x = at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    x = at::linear(x, tensors.at("fc.weight"), tensors.at("fc.bias"));
    return at::cross_entropy_loss(x, micro.targets, {}, at::Reduction::Sum, -100);
  }
};

ReferenceResNet reference_of(const ResNet& model) {
  const ResNetOptions& options = model.options();
  return {double_leaves(model), options.norm, options.stem,
          resnet_stages(options.stem, options.layers)->blocks, options.compute == Compute::bf16};
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
    for (const std::int64_t layers : {8, 14, 18, 50}) {
      ResNetOptions options = layers < 18 ? small_resnet(norm) : large_resnet(layers, norm);
      options.layers = layers;
      ResNet model(options);
      perturb(model);
      const batch::MicroBatch micro = images_for(options, 6);
      const ReferenceResNet reference = reference_of(model);
      const Loss loss = forward(model, micro, context_of(micro));
      EXPECT_EQ(loss.weight, 5);
      EXPECT_LT(relative_error(loss.sum, reference.loss(micro)), 1e-12);
      EXPECT_LT(worst_gradient_error(model, micro), layers < 18 ? 1e-11 : 1e-10);
    }
}

TEST(ResNet, GradientsInFp32AreWithinRounding) {
  ResNet model(small_resnet(Norm::batch, Compute::fp32));
  const batch::MicroBatch micro = images_for(model.options(), 6);
  EXPECT_LT(worst_gradient_error(model, micro), tolerance(at::kFloat).bound(resnet_terms));
}

/// Sums that differ in fp32 round a few operands differently, by one step of bf16 each.
const double bf16_bound = tolerance(at::kBFloat16).bound(1);

TEST(ResNet, GradientsInBf16AreThoseOfRoundedOperands) {
  for (const Norm norm : {Norm::batch, Norm::group}) {
    ResNet model(small_resnet(norm, Compute::bf16));
    const batch::MicroBatch micro = images_for(model.options(), 6);
    ReferenceResNet reference = reference_of(model);
    reference.loss(micro).backward();
    for (const auto& [name, gradient] : gradients_of(model, micro)) {
      EXPECT_EQ(gradient.scalar_type(), at::kFloat) << name;
      EXPECT_TRUE(accrue::testing::within(gradient, reference.tensors.at(name).grad(), bf16_bound))
          << name;
    }
    const at::Tensor loss = forward(model, micro, context_of(micro)).sum;
    const double rounded = relative_error(loss, reference.loss(micro));
    reference.in_bf16 = false;
    EXPECT_LT(rounded, 0.1 * relative_error(loss, reference.loss(micro))) << "the control";
  }
}

/// In a deep and narrow network one differently rounded operand changes all gradients, so only the
/// loss is compared.
TEST(ResNet, OfTheImageNetShapeHasTheLossOfBf16) {
  for (const std::int64_t layers : {18, 50}) {
    ResNet model(large_resnet(layers, Norm::group, Compute::bf16));
    const batch::MicroBatch micro = images_for(model.options(), 6);
    ReferenceResNet reference = reference_of(model);
    reference.in_bf16 = false;
    const double error =
        relative_error(forward(model, micro, context_of(micro)).sum, reference.loss(micro));
    EXPECT_LT(error, tolerance(at::kBFloat16).bound(layers));
    EXPECT_GT(error, tolerance(at::kFloat).bound(layers));
    for (const auto& [name, gradient] : gradients_of(model, micro)) {
      EXPECT_EQ(gradient.scalar_type(), at::kFloat) << name;
      EXPECT_TRUE(at::isfinite(gradient).all().item<bool>()) << name;
    }
  }
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

TEST(ResNet, OfTheImageNetShapeHasTheSizeOfTorchvisions) {
  struct Row {
    std::int64_t layers, parameters, tensors;
    double multiplications;
  };
  for (const Row& row : {Row{18, 11'689'512, 122, 1.814e9}, Row{34, 21'797'672, 218, 3.664e9},
                         Row{50, 25'557'032, 320, 4.089e9}, Row{101, 44'549'160, 626, 7.801e9},
                         Row{152, 60'192'808, 932, 11.514e9}}) {
    const ResNet model({.layers = row.layers,
                        .stem = Stem::conv7x7,
                        .width = 64,
                        .classes = 1000,
                        .image = {3, 224, 224}},
                       Initialisation::shapes);
    EXPECT_EQ(parameter_count(model), row.parameters) << row.layers;
    EXPECT_EQ(std::ssize(model.file_tensors()), row.tensors) << row.layers;
    EXPECT_NEAR(static_cast<double>(model.flops_per_sample()) / 6, row.multiplications, 1e6)
        << row.layers;
  }
}

TEST(ResNet, OfTheImageNetShapeIsCutAtEveryBatchNorm) {
  for (const auto& [layers, norms] : {std::pair(18, 20U), std::pair(50, 53U)}) {
    ResNet model(large_resnet(layers));
    EXPECT_EQ(find_batch_norms(model).cut.size(), norms);
    EXPECT_EQ(model.segments().size(), static_cast<std::size_t>(layers));
  }
}

TEST(ResNet, LayersTellTheStemWhereNobodyStatesIt) {
  EXPECT_EQ(usual_stem(50), Stem::conv7x7);
  EXPECT_EQ(usual_stem(20), Stem::conv3x3);
  EXPECT_EQ(resnet_stages(Stem::conv3x3, 50)->blocks, (std::vector<std::int64_t>{8, 8, 8}));
  EXPECT_EQ(resnet_stages(Stem::conv7x7, 50)->convolutions, 3);
  EXPECT_FALSE(resnet_stages(Stem::conv3x3, 18));
  EXPECT_FALSE(resnet_stages(Stem::conv7x7, 20));
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
  EXPECT_THAT(message([](auto& o) { o.stem = Stem::conv7x7; }), HasSubstr("18, 34, 50"));

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
