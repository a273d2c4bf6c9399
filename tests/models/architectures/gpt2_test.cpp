#include "accrue/models/gpt2.h"

#include "models/reference_gpt2.h"
#include "models/support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::relative_error;
using accrue::testing::tolerance;
using namespace models::testing;

std::vector<at::Tensor> leaves_of(const Gpt2& model) {
  std::vector<at::Tensor> leaves;
  for (const auto& [name, tensor] : model.parameters()) leaves.push_back(tensor);
  return leaves;
}

struct Errors {
  double loss = 0, gradient = 0;
  double projection = 0;  ///< the distance of a gradient's projection from 1
};

/// Relative to the reference's largest gradient of each parameter.
Errors compare(Gpt2& model, const batch::MicroBatch& micro) {
  const ReferenceGpt2 reference(model);
  const Loss loss = forward(model, micro, context_of(micro));
  EXPECT_EQ(loss.weight, static_cast<double>(micro.targets.numel() - micro.targets.size(0)));
  Errors errors{relative_error(loss.sum, reference.loss(micro))};
  const auto actual = torch::autograd::grad({loss.sum}, leaves_of(model));
  const auto expected = reference.gradients(micro);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    errors.gradient = std::max(errors.gradient, relative_error(actual[i], expected[i]));
    errors.projection = std::max(errors.projection,
                                 std::abs(accrue::testing::projection(actual[i], expected[i]) - 1));
  }
  return errors;
}

TEST(Gpt2, LossAndGradientsInFp64AreThoseOfPlainAten) {
  Gpt2 model(small());
  perturb(model);
  for (const std::int64_t length : {12, 7}) {
    const Errors errors = compare(model, random_batch(model.options(), 3, length));
    EXPECT_LT(errors.loss, 1e-13);
    EXPECT_LT(errors.gradient, 1e-12);
  }
}

TEST(Gpt2, LossAndGradientsInFp32AndBf16AreWithinRounding) {
  for (const auto& [compute, dtype] :
       {std::pair(Compute::fp32, at::kFloat), std::pair(Compute::bf16, at::kBFloat16)}) {
    Gpt2 model(small(compute));
    perturb(model);
    for (const bool packed : {false, true}) {
      model.pack_weights(packed);
      const Errors errors = compare(model, random_batch(model.options(), 3, 12));
      EXPECT_LT(errors.loss, tolerance(dtype).bound(1)) << packed;
      EXPECT_LT(errors.gradient, tolerance(dtype).bound(small_terms)) << packed;
      EXPECT_LT(errors.projection, accrue::testing::projection_limit) << packed;
    }
  }
}

TEST(Gpt2, TheComparisonSeesAWrongParameter) {
  Gpt2 model(small());
  perturb(model);
  const batch::MicroBatch micro = random_batch(model.options(), 3, 12);
  const ReferenceGpt2 reference(model);
  {
    const at::NoGradGuard no_grad;
    model.parameters()[3].tensor.mul_(1.001);
  }
  EXPECT_GT(relative_error(forward(model, micro, context_of(micro)).sum, reference.loss(micro)),
            1e-9);
}

TEST(Gpt2, SegmentsAreTheChainThatTheContractNames) {
  Gpt2 model(small());
  std::vector<std::string> names;
  for (const Segment& segment : model.segments()) names.push_back(segment.name);
  EXPECT_EQ(names, (std::vector<std::string>{"embed", "block.0", "block.1", "head"}));
  EXPECT_EQ(model.losses().front().name, "cross_entropy");
  EXPECT_EQ(model.parameters().size(), 2U + 2 * 12 + 2);
}

TEST(Gpt2, TheResidualStreamIsInTheMastersDtypeAndGemmInputsInTheComputeDtype) {
  for (const auto& [compute, stream, hidden] :
       {std::tuple(Compute::fp32, at::kFloat, at::kFloat),
        std::tuple(Compute::bf16, at::kFloat, at::kBFloat16),
        std::tuple(Compute::fp64, at::kDouble, at::kDouble)}) {
    Gpt2 model(small(compute));
    const batch::MicroBatch micro = random_batch(model.options(), 2, 12);
    Activations x;
    for (const Segment& segment : model.segments()) {
      x = segment.forward(x, micro, context_of(micro));
      EXPECT_EQ(x.at(0).scalar_type(), segment.name == "head" ? hidden : stream) << segment.name;
    }
    for (const auto& [name, tensor] : model.parameters()) EXPECT_EQ(tensor.scalar_type(), stream);
  }
}

/// Each weight of a block has an operand for each of its two products.
TEST(Gpt2, PackedWeightsTakeTheBytesThatItTells) {
  const Gpt2Options options = small(Compute::bf16);
  const std::int64_t weights = options.layers * 12 * options.width * options.width;
  EXPECT_EQ(Gpt2(options).packed_weight_bytes(), 2 * 2 * weights);
}

TEST(Gpt2, TheInitialLossIsThatOfAUniformGuess) {
  Gpt2Options options = small(Compute::fp32);
  options.vocab = 256;
  Gpt2 model(options);
  const batch::MicroBatch micro = random_batch(options, 8, 12);
  const Loss loss = evaluate(model, micro, context_of(micro));
  EXPECT_NEAR(loss.sum.item<double>() / loss.weight, std::log(256.0), 0.05);
  EXPECT_FALSE(loss.sum.requires_grad());
}

TEST(Gpt2, InitialisationFollowsSeedAndNameOnly) {
  Gpt2Options options = small(Compute::fp32);
  const Gpt2 model(options), again(options);
  options.layers = 3;
  const Gpt2 deeper(options);
  options.seed = 2;
  const Gpt2 other(options);
  const auto find = [](const Gpt2& in, const std::string& name) {
    for (const auto& [key, tensor] : in.parameters())
      if (key == name) return tensor;
    throw std::out_of_range(name);
  };
  for (const auto& [name, tensor] : model.parameters())
    EXPECT_TRUE(at::equal(tensor, find(again, name))) << name;
  for (const char* name : {"transformer.wte.weight", "transformer.h.1.mlp.c_fc.weight"}) {
    EXPECT_TRUE(at::equal(find(model, name), find(deeper, name)));
    EXPECT_FALSE(at::equal(find(deeper, name), find(other, name)));
  }
  EXPECT_FALSE(at::equal(find(model, "transformer.h.0.mlp.c_fc.weight"),
                         find(model, "transformer.h.1.mlp.c_fc.weight")));
}

TEST(Gpt2, InitialisationHasTheDeviationsOfGpt2) {
  Gpt2Options options = small(Compute::fp32);
  options.width = 96;
  options.vocab = 500;
  const Gpt2 model(options);
  for (const auto& [name, tensor] : model.parameters()) {
    const double deviation = tensor.std(/*unbiased=*/false).item<double>();
    const bool residual = name.ends_with("c_proj.weight");
    const double expected = tensor.dim() < 2 ? 0 : residual ? 0.02 / std::sqrt(2.0 * 2) : 0.02;
    // A sample deviation of n normals has a relative error of 1/sqrt(2n); 5 of them.
    const double allowed = 5 / std::sqrt(2.0 * static_cast<double>(tensor.numel()));
    EXPECT_NEAR(deviation, expected, expected * allowed) << name;
    const bool gain = name.find("ln_") != std::string::npos && name.ends_with("weight");
    if (tensor.dim() < 2) {
      EXPECT_EQ(tensor.mean().item<double>(), gain ? 1 : 0) << name;
    }
  }
}

TEST(Gpt2, TheFp64ModelStartsFromTheValuesOfTheFp32Model) {
  const Gpt2 wide(small(Compute::fp64)), narrow(small(Compute::fp32));
  for (std::size_t i = 0; i < wide.parameters().size(); ++i)
    EXPECT_TRUE(
        at::equal(wide.parameters()[i].tensor.to(at::kFloat), narrow.parameters()[i].tensor));
}

batch::MicroBatch rows_of(const batch::MicroBatch& micro, std::int64_t begin, std::int64_t end) {
  batch::MicroBatch part;
  part.inputs = micro.inputs.slice(0, begin, end).contiguous();
  part.targets = micro.targets.slice(0, begin, end).contiguous();
  part.sample_ids.assign(micro.sample_ids.begin() + begin, micro.sample_ids.begin() + end);
  return part;
}

TEST(Gpt2, DropoutDoesNotDependOnTheSplit) {
  Gpt2Options options = small();
  options.dropout = 0.3;
  Gpt2 model(options);
  perturb(model);
  batch::MicroBatch micro = random_batch(options, 4, 12);
  micro.sample_ids = {9, 2, 40, 3};
  const double whole = forward(model, micro, context_of(micro)).sum.item<double>();
  const auto split_sum = [&](bool keep_ids) {
    double sum = 0;
    for (const auto& [begin, end] : {std::pair(0, 1), std::pair(1, 4)}) {
      batch::MicroBatch part = rows_of(micro, begin, end);
      if (!keep_ids)
        for (std::size_t i = 0; i < part.sample_ids.size(); ++i)
          part.sample_ids[i] = static_cast<std::int64_t>(i);
      sum += forward(model, part, context_of(part)).sum.item<double>();
    }
    return sum;
  };
  EXPECT_NEAR(split_sum(true), whole, 1e-12 * whole);
  EXPECT_GT(std::abs(split_sum(false) - whole), 1e-6 * whole);  // rows as keys: the usual mistake
}

TEST(Gpt2, EverySiteDropsAndEvaluationDoesNot) {
  Gpt2Options options = small();
  options.dropout = 0.3;
  Gpt2 dropping(options);
  perturb(dropping);
  const batch::MicroBatch micro = random_batch(options, 3, 12);
  const ForwardContext context = context_of(micro);
  const Loss loss = forward(dropping, micro, context);
  ReferenceGpt2 reference(dropping);
  reference.drop(context);
  EXPECT_LT(relative_error(loss.sum, reference.loss(micro)), 1e-13);
  const auto actual = torch::autograd::grad({loss.sum}, leaves_of(dropping));
  const auto expected = reference.gradients(micro);
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_LT(relative_error(actual[i], expected[i]), 1e-12) << i;

  for (std::int64_t site = 0; site < 1 + 3 * options.layers; ++site) {
    reference.drop(context, /*without=*/site);
    EXPECT_GT(relative_error(loss.sum, reference.loss(micro)), 1e-6) << "site " << site;
  }
  ForwardContext evaluating = context;
  evaluating.training = false;
  const ReferenceGpt2 undropped(dropping);
  EXPECT_LT(relative_error(evaluate(dropping, micro, evaluating).sum, undropped.loss(micro)),
            1e-13);
}

TEST(Gpt2, TheLossWeighsTheLabels) {
  for (const bool fused : {true, false}) {
    Gpt2Options options = small();
    options.fused_loss = fused;
    Gpt2 model(options);
    perturb(model);
    batch::MicroBatch micro = random_batch(model.options(), 3, 12);
    const auto announced = [&] { return model.losses().front().weight(micro); };
    EXPECT_EQ(announced(), 3 * 11);
    const ReferenceGpt2 reference(model);
    const double unweighted = reference.loss(micro).item<double>();
    micro.weights = at::rand({3, 12}) + 0.5;
    const Loss loss = forward(model, micro, context_of(micro));
    EXPECT_EQ(announced(), loss.weight);
    EXPECT_NEAR(loss.weight, micro.weights.slice(1, 0, 11).sum().item<double>(), 1e-4);
    EXPECT_LT(relative_error(loss.sum, reference.loss(micro)), 1e-13) << fused;
    EXPECT_GT(std::abs(loss.sum.item<double>() - unweighted), 1e-3);
    const auto actual = torch::autograd::grad({loss.sum}, leaves_of(model));
    const auto expected = reference.gradients(micro);
    for (std::size_t i = 0; i < actual.size(); ++i)
      EXPECT_LT(relative_error(actual[i], expected[i]), 1e-12) << i;
  }
}

TEST(Gpt2, NextTokenLogitsAreTheLastRowOfAllLogits) {
  Gpt2Options options = small();
  options.context = 80;
  for (const Compute compute : {Compute::fp64, Compute::fp32, Compute::bf16}) {
    options.compute = compute;
    options.dropout = 0.5;  // must not act here
    Gpt2 model(options);
    perturb(model);
    const ReferenceGpt2 reference(model);
    for (const std::int64_t length : {1, 9, 64, 65, 80}) {
      const at::Tensor ids = random_batch(options, 2, length).inputs;
      const at::Tensor logits = model.next_token_logits(ids);
      EXPECT_EQ(logits.scalar_type(), compute == Compute::fp64 ? at::kDouble : at::kFloat);
      const auto dtype = compute == Compute::bf16   ? at::kBFloat16
                         : compute == Compute::fp32 ? at::kFloat
                                                    : at::kDouble;
      EXPECT_TRUE(accrue::testing::close(logits, reference.logits(ids).select(1, length - 1), dtype,
                                         small_terms));
    }
  }
}

TEST(Gpt2, RefusesOptionsOutOfRangeByName) {
  const auto message = [](const std::function<void(Gpt2Options&)>& change) {
    Gpt2Options options = small();
    change(options);
    return message_of([&] { const Gpt2 model(options); });
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(message([](auto& o) { o.layers = 0; }), HasSubstr("model.layers"));
  EXPECT_THAT(message([](auto& o) { o.heads = -1; }), HasSubstr("model.heads"));
  EXPECT_THAT(message([](auto& o) { o.width = 0; }), HasSubstr("model.width"));
  EXPECT_THAT(message([](auto& o) { o.width = 25; }), HasSubstr("model.width=27"));
  EXPECT_THAT(message([](auto& o) { o.context = 0; }), HasSubstr("model.context"));
  EXPECT_THAT(message([](auto& o) { o.vocab = 0; }), HasSubstr("model.vocab"));
  EXPECT_THAT(message([](auto& o) { o.dropout = 1; }), HasSubstr("model.dropout"));
  EXPECT_THAT(message([](auto& o) { o.dropout = NAN; }), HasSubstr("model.dropout"));
  EXPECT_THAT(message([](auto& o) { o.layers = INT64_MAX; }), HasSubstr("10^12"));
}

TEST(Gpt2, RefusesInputsThatDoNotFit) {
  Gpt2 model(small());
  batch::MicroBatch micro = random_batch(model.options(), 2, 13);
  EXPECT_THAT(message_of([&] { forward(model, micro, context_of(micro)); }),
              ::testing::HasSubstr("model.context"));
  micro.inputs = at::ones({2, 3});
  EXPECT_THAT(message_of([&] { forward(model, micro, context_of(micro)); }),
              ::testing::HasSubstr("int64"));
}

TEST(Gpt2, CountsOfGpt2SmallAreThePublishedOnes) {
  const Gpt2 model(Gpt2Options{.layers = 12}, Initialisation::zeros);
  EXPECT_EQ(parameter_count(model), 124'439'808);
}

TEST(Gpt2, CountsTheMultiplicationsThatACausalMaskLeaves) {
  constexpr std::int64_t layers = 12, width = 768, context = 1024;
  const Gpt2 model(Gpt2Options{.layers = layers}, Initialisation::zeros);
  const std::int64_t multiplied = parameter_count(model) - context * width;
  std::int64_t pairs = 0;  // of a query and a key, in one head of one layer
  for (std::int64_t query = 0; query < context; ++query) pairs += query + 1;
  const std::int64_t attention = 2 * layers * width * pairs;  // scores and values
  EXPECT_EQ(model.flops_per_sample(), 6 * (context * multiplied + attention));
  EXPECT_EQ(model.flops_per_sample(), context * model.flops_per_token());
}

TEST(Evaluate, RefusesToAddLossesOfDifferentWeights) {
  class TwoLosses : public Trainable {
   public:
    NamedParameters parameters() const override { return {}; }
    std::vector<Segment> segments() override { return {}; }
    std::vector<LossHead> losses() override {
      const auto constant = [](double weight) {
        return
            [weight](const Activations&, const batch::MicroBatch&, const ForwardContext&, double) {
              return Loss{at::scalar_tensor(2.0), weight};
            };
      };
      return {{"a", constant(3)}, {"b", constant(second_weight)}};
    }
    double second_weight = 3;
  };
  TwoLosses model;
  const Loss sum = evaluate(model, {}, {});
  EXPECT_EQ(sum.sum.item<double>(), 4);
  EXPECT_EQ(sum.weight, 3);
  model.second_weight = 4;
  EXPECT_THAT(message_of([&] { evaluate(model, {}, {}); }), ::testing::HasSubstr("b with weight"));
}

}  // namespace
}  // namespace accrue::models
