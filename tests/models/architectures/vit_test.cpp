#include "accrue/models/vit.h"

#include "models/image_support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::relative_error;
using accrue::testing::tolerance;
using ::testing::HasSubstr;
using namespace models::testing;

VitOptions small_vit(Compute compute = Compute::fp64) {
  return {.layers = 2,
          .heads = 3,
          .width = 24,
          .patches = 9,
          .classes = 5,
          .image = {2, 9, 12},
          .compute = compute};
}

batch::MicroBatch images_for(const VitOptions& options, std::int64_t samples) {
  return random_images(options.image, options.classes, samples);
}

/// ViTForImageClassification with hidden_act "gelu_pytorch_tanh", with tensors by their names in
/// files: patches by a strided convolution, separate query, key and value.
struct ReferenceVit {
  TensorsByName tensors;
  std::int64_t layers, heads;

  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    return at::linear(x, tensors.at(name + ".weight"), tensors.at(name + ".bias"));
  }
  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    return at::layer_norm(x, {x.size(-1)}, tensors.at(name + ".weight"), tensors.at(name + ".bias"),
                          1e-6);
  }
  at::Tensor split(const at::Tensor& x) const {
    return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
  }

  at::Tensor attention(const std::string& name, const at::Tensor& x) const {
    const at::Tensor q = split(linear(name + ".attention.query", x)),
                     k = split(linear(name + ".attention.key", x)),
                     v = split(linear(name + ".attention.value", x));
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
    const at::Tensor weights = at::softmax(at::matmul(q, k.transpose(2, 3)) * scale, -1);
    return linear(name + ".output.dense",
                  at::matmul(weights, v).transpose(1, 2).reshape(x.sizes()));
  }

  at::Tensor loss(const batch::MicroBatch& micro) const {
    const std::string embeddings = "vit.embeddings.";
    const at::Tensor& kernel = tensors.at(embeddings + "patch_embeddings.projection.weight");
    at::Tensor x = at::conv2d(micro.inputs.to(at::kDouble), kernel,
                              tensors.at(embeddings + "patch_embeddings.projection.bias"),
                              {kernel.size(2), kernel.size(3)});
    x = x.flatten(2).transpose(1, 2);
    const at::Tensor token = tensors.at(embeddings + "cls_token");
    x = at::cat({token.expand({x.size(0), -1, -1}), x}, 1) +
        tensors.at(embeddings + "position_embeddings");
    for (std::int64_t i = 0; i < layers; ++i) {
      const std::string name = "vit.encoder.layer." + std::to_string(i);
      x = x + attention(name + ".attention", norm(name + ".layernorm_before", x));
      const at::Tensor hidden = at::gelu(
          linear(name + ".intermediate.dense", norm(name + ".layernorm_after", x)), "tanh");
      x = x + linear(name + ".output.dense", hidden);
    }
    const at::Tensor logits = linear("classifier", norm("vit.layernorm", x).select(1, 0));
    return at::cross_entropy_loss(logits, micro.targets, {}, at::Reduction::Sum, -100);
  }
};

ReferenceVit reference_of(const Vit& model) {
  return {double_leaves(model), model.options().layers, model.options().heads};
}

/// The reference's gradients in the layout of the model's own parameters.
at::Tensor packed_gradient(const ReferenceVit& reference, const std::string& name) {
  const std::string packed = "attention.qkv";
  const std::size_t at = name.find(packed);
  if (at == std::string::npos) return reference.tensors.at(name).grad();
  std::vector<at::Tensor> parts;
  for (const char* part : {"attention.query", "attention.key", "attention.value"})
    parts.push_back(
        reference.tensors.at(std::string(name).replace(at, packed.size(), part)).grad());
  return at::cat(parts, 0);
}

void expect_gradients_of_the_reference(Vit& model, const batch::MicroBatch& micro, double bound) {
  const ReferenceVit reference = reference_of(model);
  reference.loss(micro).backward();
  for (const auto& [name, gradient] : gradients_of(model, micro))
    EXPECT_TRUE(accrue::testing::within(
        gradient, packed_gradient(reference, name).view(gradient.sizes()), bound))
        << name;
}

constexpr std::int64_t vit_terms = 2 * 2 * (4 * 24 + 10 + 5);

TEST(Vit, LossAndGradientsInFp64AreThoseOfPlainAten) {
  Vit model(small_vit());
  perturb(model);
  const batch::MicroBatch micro = images_for(model.options(), 4);
  const Loss loss = forward(model, micro, context_of(micro));
  EXPECT_EQ(loss.weight, 3);
  EXPECT_LT(relative_error(loss.sum, reference_of(model).loss(micro)), 1e-13);
  expect_gradients_of_the_reference(model, micro, 1e-12);
}

TEST(Vit, GradientsInFp32AndBf16AreWithinRounding) {
  for (const auto& [compute, dtype] :
       {std::pair(Compute::fp32, at::kFloat), std::pair(Compute::bf16, at::kBFloat16)}) {
    Vit model(small_vit(compute));
    perturb(model);
    for (const bool packed : {false, true}) {
      model.pack_weights(packed);
      SCOPED_TRACE(packed);
      expect_gradients_of_the_reference(model, images_for(model.options(), 4),
                                        tolerance(dtype).bound(vit_terms));
    }
    for (const auto& [name, tensor] : model.parameters())
      EXPECT_EQ(tensor.scalar_type(), at::kFloat);
  }
}

TEST(Vit, TheComparisonSeesAWrongParameter) {
  Vit model(small_vit());
  perturb(model);
  const batch::MicroBatch micro = images_for(model.options(), 4);
  const ReferenceVit reference = reference_of(model);
  {
    const at::NoGradGuard no_grad;
    model.parameters()[0].tensor.mul_(1.001);
  }
  EXPECT_GT(relative_error(forward(model, micro, context_of(micro)).sum, reference.loss(micro)),
            1e-9);
}

TEST(Vit, SegmentsAreTheChainThatTheContractNames) {
  Vit model(small_vit());
  std::vector<std::string> names;
  for (const Segment& segment : model.segments()) names.push_back(segment.name);
  EXPECT_EQ(names, (std::vector<std::string>{"embed", "block.0", "block.1", "head"}));
}

TEST(Vit, DropoutDoesNotDependOnTheSplit) {
  VitOptions options = small_vit();
  options.dropout = 0.3;
  Vit model(options);
  perturb(model);
  const batch::MicroBatch micro = images_for(options, 5);
  const double whole = forward(model, micro, context_of(micro)).sum.item<double>();
  const auto split_sum = [&](bool keep_ids) {
    double sum = 0;
    for (const auto& [begin, end] : {std::pair(0, 2), std::pair(2, 5)}) {
      batch::MicroBatch part;
      part.inputs = micro.inputs.slice(0, begin, end);
      part.targets = micro.targets.slice(0, begin, end);
      for (int i = begin; i < end; ++i)
        part.sample_ids.push_back(keep_ids ? micro.sample_ids[static_cast<std::size_t>(i)]
                                           : i - begin);
      sum += forward(model, part, context_of(part)).sum.item<double>();
    }
    return sum;
  };
  EXPECT_NEAR(split_sum(true), whole, 1e-12 * whole);
  EXPECT_GT(std::abs(split_sum(false) - whole), 1e-6 * whole);
  ForwardContext context = context_of(micro);
  context.training = false;
  EXPECT_NEAR(evaluate(model, micro, context).sum.item<double>(),
              reference_of(model).loss(micro).item<double>(), 1e-12 * whole);
}

TEST(Vit, FileTensorsComeBack) {
  Vit model(small_vit(Compute::fp32));
  perturb(model);
  VitOptions options = small_vit(Compute::fp32);
  options.seed = 3;
  Vit other(options);
  NamedParameters tensors;
  for (const auto& [name, tensor] : model.file_tensors()) tensors.push_back({name, tensor.clone()});
  other.load_file_tensors(tensors, "a test");
  for (std::size_t i = 0; i < model.parameters().size(); ++i)
    EXPECT_TRUE(at::equal(model.parameters()[i].tensor, other.parameters()[i].tensor));
  tensors.front().name = "cls";
  EXPECT_THAT(message_of([&] { other.load_file_tensors(tensors, "f"); }),
              HasSubstr("vit.embeddings.cls_token"));
}

TEST(Vit, RefusesOptionsOutOfRangeByName) {
  const auto message = [](const std::function<void(VitOptions&)>& change) {
    VitOptions options = small_vit();
    change(options);
    return message_of([&] { const Vit model(options); });
  };
  EXPECT_THAT(message([](auto& o) { o.layers = 0; }), HasSubstr("model.layers"));
  EXPECT_THAT(message([](auto& o) { o.heads = 0; }), HasSubstr("model.heads"));
  EXPECT_THAT(message([](auto& o) { o.width = 25; }), HasSubstr("model.width=27"));
  EXPECT_THAT(message([](auto& o) { o.patches = 8; }), HasSubstr("one of 1, 9"));
  EXPECT_THAT(message([](auto& o) { o.patches = 16; }), HasSubstr("9 x 12"));
  EXPECT_THAT(message([](auto& o) { o.classes = 0; }), HasSubstr("model.vocab"));
  EXPECT_THAT(message([](auto& o) { o.dropout = NAN; }), HasSubstr("model.dropout"));
}

TEST(Vit, CountsTheMultiplicationsOfItsProducts) {
  const Vit model(small_vit());
  constexpr std::int64_t positions = 10, width = 24;
  constexpr std::int64_t matrices = positions * (3 + 1 + 4 + 4) * width * width;
  constexpr std::int64_t attention = 2 * positions * positions * width;  // scores and values
  constexpr std::int64_t patches = 9 * (2 * 3 * 4) * width, classifier = width * 5;
  EXPECT_EQ(model.flops_per_sample(), 6 * (2 * (matrices + attention) + patches + classifier));
}

}  // namespace
}  // namespace accrue::models
