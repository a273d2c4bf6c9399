#include "accrue/models/torchscript.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cmath>
#include <fstream>

#include "accrue/models/normalisation.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "core/sha256.h"
#include "models/image_support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::relative_error;
using ::testing::HasSubstr;
using namespace models::testing;

constexpr std::int64_t features = 32;

at::Tensor leaf(const at::Tensor& values) { return values.detach().requires_grad_(true); }

/// A linear classifier of flattened images, with `body` between, which may read `buffers`.
torch::jit::Module classifier(const std::string& body = "", const NamedParameters& buffers = {}) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  torch::jit::Module module("Classifier");
  const at::Tensor weight =
      0.1 * at::randn({tiny_classes, features}, generator, at::TensorOptions());
  module.register_parameter("weight", leaf(weight), false);
  module.register_parameter("bias", leaf(at::zeros({tiny_classes})), false);
  module.register_buffer("mean", at::zeros({features}));
  module.register_buffer("var", at::ones({features}));
  for (const NamedParameter& buffer : buffers) module.register_buffer(buffer.name, buffer.tensor);
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define("def forward(self, x):\n  x = torch.flatten(x, 1)\n" + body +
                "  return torch.matmul(x, self.weight.t()) + self.bias\n");
  return module;
}

class TorchScript : public ::testing::Test {
 protected:
  std::filesystem::path save(const torch::jit::Module& module) {
    const std::filesystem::path file = folder / "module.pt";
    module.save(file.string());
    return file;
  }
  TorchScriptModel load(const torch::jit::Module& module, Compute compute = Compute::fp64) {
    return TorchScriptModel({.file = save(module), .compute = compute});
  }
  std::string refusal(const std::filesystem::path& file) {
    return message_of([&] { const TorchScriptModel model({.file = file}); });
  }

  TemporaryFolder folder;
  batch::MicroBatch micro = random_images(tiny_image, tiny_classes, 6);
};

TEST_F(TorchScript, LossAndGradientsAreThoseOfTheModule) {
  for (const auto& [compute, bound] :
       {std::pair(Compute::fp64, 1e-13), std::pair(Compute::fp32, 1e-5)}) {
    TorchScriptModel model = load(classifier("  x = torch.tanh(x)\n"), compute);
    const TensorsByName reference = double_leaves(model);
    const at::Tensor x = at::tanh(micro.inputs.to(at::kDouble).flatten(1));
    const at::Tensor expected =
        at::cross_entropy_loss(at::linear(x, reference.at("weight"), reference.at("bias")),
                               micro.targets, {}, at::Reduction::Sum, -100);
    expected.backward();
    const Loss loss = forward(model, micro, context_of(micro));
    EXPECT_EQ(loss.weight, 5);
    EXPECT_LT(relative_error(loss.sum, expected), bound);
    for (const auto& [name, gradient] : gradients_of(model, micro))
      EXPECT_LT(relative_error(gradient, reference.at(name).grad()), bound) << name;
  }
}

/// Replacing the file after its digest is computed does not make its code run.
TEST_F(TorchScript, LoadsTheBytesThatWereAdmitted) {
  const torch::jit::Module module = classifier(), other = classifier("  x = 2 * x\n");
  const std::filesystem::path file = save(module);
  const std::string bytes = read_file(file);
  std::string told;
  TorchScriptModel model({.file = file, .admit = [&](const std::string& digest) {
                            told = digest;
                            save(other);
                          }});
  EXPECT_EQ(told, sha256_of(bytes));
  EXPECT_EQ(model.digest(), told);
  EXPECT_NE(read_file(file), bytes);
  const Loss loaded = forward(model, micro, context_of(micro));
  TorchScriptModel of_module = load(module, Compute::fp32), of_other = load(other, Compute::fp32);
  EXPECT_TRUE(at::equal(loaded.sum, forward(of_module, micro, context_of(micro)).sum));
  EXPECT_FALSE(at::equal(loaded.sum, forward(of_other, micro, context_of(micro)).sum));
}

TEST_F(TorchScript, IsNotLoadedWhereItIsNotAdmitted) {
  EXPECT_THAT(message_of([&] {
                const TorchScriptModel model(
                    {.file = save(classifier()), .admit = [](const std::string&) {
                       throw usage_error("load", "the module", "another one", "it");
                     }});
              }),
              HasSubstr("received another one"));
}

TEST_F(TorchScript, TakesTokensAndGivesLogitsOfEachPosition) {
  torch::jit::Module module("Bigram");
  module.register_parameter("table", leaf(at::rand({7, 7})), false);
  module.define("def forward(self, ids):\n  return torch.embedding(self.table, ids)\n");
  TorchScriptModel model = load(module);
  batch::MicroBatch tokens;
  tokens.inputs = at::randint(7, {2, 3}, at::kLong);
  tokens.targets = at::randint(7, {2, 3}, at::kLong);
  tokens.sample_ids = {0, 1};
  EXPECT_EQ(forward(model, tokens, context_of(tokens)).weight, 6);
  tokens.targets = at::randint(7, {2}, at::kLong);
  EXPECT_THAT(message_of([&] { forward(model, tokens, context_of(tokens)); }),
              HasSubstr("[2, 3, 7]"));
}

TEST_F(TorchScript, WithBatchNormIsRecommendedOnlyWhatItCanDo) {
  TorchScriptModel model = load(classifier(
      "  x = torch.batch_norm(x, None, None, self.mean, self.var, True, 0.1, 1e-5, False)\n"));
  for (const BatchNormPolicy policy :
       {BatchNormPolicy::error, BatchNormPolicy::exact, BatchNormPolicy::convert_group}) {
    const std::string message = message_of([&] { check_batch_norms(model, policy); });
    const std::string advice = message.substr(message.find("; try "));
    EXPECT_THAT(advice, HasSubstr("model.batchnorm = \"micro\""));
    EXPECT_THAT(advice, ::testing::Not(HasSubstr("exact")));
    EXPECT_THAT(advice, ::testing::Not(HasSubstr("convert")));
  }
}

TEST_F(TorchScript, FindsBatchNormAndDropoutInTheGraphAlsoOfModulesInside) {
  const std::string norm =
      "  x = torch.batch_norm(x, None, None, self.mean, self.var, True, 0.1, 1e-5, False)\n";
  const std::string drop = "  x = torch.dropout(x, 0.5, self.training)\n";
  const auto found = [&](const torch::jit::Module& module) {
    const TorchScriptModel model = load(module);
    return std::pair(model.contains_batch_norm(), model.contains_dropout());
  };
  EXPECT_EQ(found(classifier()), std::pair(false, false));
  EXPECT_EQ(found(classifier(norm)), std::pair(true, false));
  EXPECT_EQ(found(classifier(drop)), std::pair(false, true));
  EXPECT_EQ(found(classifier("  x = torch.batch_norm(x, None, None, self.mean, self.var, False, "
                             "0.1, 1e-5, False)\n  x = torch.dropout(x, 0.5, False)\n")),
            std::pair(false, false))
      << "traced in evaluation mode";
  EXPECT_EQ(found(classifier("  x = torch.dropout(x, 0., self.training)\n")),
            std::pair(false, false));

  torch::jit::Module outer("Outer");
  outer.register_module("inner", classifier("  if self.training:\n  " + drop + norm));
  outer.define("def forward(self, x):\n  return self.inner.forward(x) * 2\n");
  EXPECT_EQ(found(outer), std::pair(true, true));
}

TEST_F(TorchScript, DrawsTheSameWhenRunAgainAndNothingInEvaluation) {
  TorchScriptModel model = load(classifier("  x = torch.dropout(x, 0.5, self.training)\n"));
  const auto loss = [&](const ForwardContext& context) {
    return forward(model, micro, context).sum.item<double>();
  };
  ForwardContext context = context_of(micro);
  const at::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
  const double first = loss(context);
  EXPECT_EQ(loss(context), first);
  context.window += 1;
  EXPECT_NE(loss(context), first);
  EXPECT_TRUE(at::equal(at::detail::getDefaultCPUGenerator().get_state(), state));
  context.training = false;
  TorchScriptModel plain = load(classifier());
  EXPECT_EQ(loss(context), forward(plain, micro, context).sum.item<double>());
}

TEST_F(TorchScript, FileTensorsAndModulesComeBack) {
  TorchScriptModel model = load(classifier(), Compute::fp32);
  perturb(model);
  NamedParameters tensors;
  for (const auto& [name, tensor] : model.file_tensors()) tensors.push_back({name, tensor.clone()});
  EXPECT_EQ(tensors.size(), 4U);
  TorchScriptModel other = load(classifier(), Compute::fp32);
  other.load_file_tensors(tensors, "a test");
  other.save(folder / "saved.pt");
  const TorchScriptModel saved({.file = folder / "saved.pt"});
  for (std::size_t i = 0; i < tensors.size(); ++i)
    EXPECT_TRUE(at::equal(saved.file_tensors()[i].tensor, tensors[i].tensor));
}

/// The module computes |w x| for complex w, in a form without complex numbers; a cast to real
/// numbers would give |Re w| |x|.
TEST_F(TorchScript, KeepsComplexBuffers) {
  const at::Tensor real = at::ones({features}), imaginary = 3 * at::ones({features});
  const torch::jit::Module module =
      classifier("  x = torch.abs(x * self.w)\n", {{"w", at::complex(real, imaginary)}});
  for (const auto& [compute, bound] :
       {std::pair(Compute::fp64, 1e-6), std::pair(Compute::fp32, 1e-5)}) {
    TorchScriptModel model = load(module, compute);
    EXPECT_EQ(model.buffers().back().tensor.scalar_type(), at::kComplexFloat);
    const TensorsByName reference = double_leaves(model);
    const auto loss_of = [&](double magnitude) {
      const at::Tensor x = micro.inputs.to(at::kDouble).flatten(1).abs() * magnitude;
      return at::cross_entropy_loss(at::linear(x, reference.at("weight"), reference.at("bias")),
                                    micro.targets, {}, at::Reduction::Sum, -100);
    };
    const Loss loss = forward(model, micro, context_of(micro));
    EXPECT_LT(relative_error(loss.sum, loss_of(std::sqrt(10.0))), bound);
    EXPECT_GT(relative_error(loss.sum, loss_of(1)), 1e-2) << "of the real part alone";
  }
}

/// Integers and booleans that a module counts, looks up and masks with.
TEST_F(TorchScript, KeepsWholeNumbersAndTruthValues) {
  const torch::jit::Module module =
      classifier("  x = torch.where(self.mask, x, torch.zeros_like(x))[:, self.places]\n",
                 {{"places", at::arange(features).flip(0)},
                  {"mask", at::arange(features).remainder(2).eq(0)},
                  {"count", at::full({}, (std::int64_t{1} << 40) + 1, at::kLong)},
                  {"small", at::ones({2}, at::kChar)}});
  for (const Compute compute : {Compute::fp32, Compute::fp64, Compute::bf16}) {
    TorchScriptModel model = load(module, compute);
    const auto dtype_of = [&](const std::string& name) {
      for (const NamedParameter& buffer : model.buffers())
        if (buffer.name == name) return buffer.tensor.scalar_type();
      return at::kFloat;
    };
    EXPECT_EQ(dtype_of("places"), at::kLong);
    EXPECT_EQ(dtype_of("mask"), at::kBool);
    EXPECT_EQ(dtype_of("count"), at::kLong);
    EXPECT_EQ(dtype_of("small"), at::kChar);
    EXPECT_NO_THROW(forward(model, micro, context_of(micro)));
  }
}

/// Checkpoints have all of them; those of earlier versions store integers as floating-point
/// numbers.
TEST_F(TorchScript, FilesHoldComplexAndWholeNumbers) {
  const torch::jit::Module module =
      classifier("", {{"w", at::complex(at::ones({3}), at::full({3}, -2.5))},
                      {"count", at::full({}, 7, at::kLong)}});
  const TorchScriptModel model = load(module, Compute::fp32);
  write_safetensors(folder / "saved.safetensors", model.file_tensors());
  module.attr("w").toTensor().zero_();
  module.attr("count").toTensor().zero_();
  TorchScriptModel other = load(module, Compute::fp32);
  other.load_file_tensors(open_safetensors(folder / "saved.safetensors").tensors, "a test");
  for (std::size_t i = 0; i < model.file_tensors().size(); ++i)
    EXPECT_TRUE(at::equal(other.file_tensors()[i].tensor, model.file_tensors()[i].tensor));

  NamedParameters former = model.file_tensors();
  for (NamedParameter& tensor : former)
    if (tensor.name == "count") tensor.tensor = at::full({}, 9, at::kFloat);
  other.load_file_tensors(stored(former), "a test");
  EXPECT_EQ(other.buffers().back().tensor.item<std::int64_t>(), 9);
  for (NamedParameter& tensor : former)
    if (tensor.name == "w") tensor.tensor = at::ones({3});
  EXPECT_THAT(message_of([&] { other.load_file_tensors(stored(former), "a test"); }),
              HasSubstr("\"w\": expected complex numbers, received Float"));
}

TEST_F(TorchScript, RefusesByNameWhatItCannotTrainOrKeep) {
  torch::jit::Module trained = classifier();
  trained.register_parameter("turn", leaf(at::ones({2}, at::kComplexFloat)), false);
  EXPECT_THAT(refusal(save(trained)), HasSubstr("expected real numbers as parameters to train, "
                                                "received 'turn' of ComplexFloat"));
  const torch::jit::Module wide = classifier("", {{"wide", at::ones({2}, at::kComplexDouble)}});
  EXPECT_THAT(refusal(save(wide)), HasSubstr("tensor 'wide' of ComplexDouble"));
}

TEST_F(TorchScript, MakesParametersContiguous) {
  torch::jit::Module module = classifier();
  const at::Tensor values = module.attr("weight").toTensor().detach().clone();
  module.setattr("weight", leaf(values.t().contiguous().t()));
  const std::filesystem::path file = save(module);
  ASSERT_FALSE(torch::jit::load(file.string()).attr("weight").toTensor().is_contiguous());
  TorchScriptModel model({.file = file, .compute = Compute::fp32});
  for (const auto& [name, parameter] : model.parameters())
    EXPECT_TRUE(parameter.is_contiguous() && parameter.requires_grad()) << name;
  TorchScriptModel same = load(classifier(), Compute::fp32);
  EXPECT_TRUE(at::equal(forward(model, micro, context_of(micro)).sum,
                        forward(same, micro, context_of(micro)).sum));
}

TEST_F(TorchScript, RefusesOtherSignaturesSayingWhatWasFound) {
  const auto with_forward = [&](const std::string& definition) {
    torch::jit::Module module("M");
    module.register_parameter("w", leaf(at::ones({2, 2})), false);
    module.define(definition);
    return refusal(save(module));
  };
  EXPECT_THAT(with_forward("def forward(self, x: int):\n  return self.w\n"), HasSubstr("int x"));
  EXPECT_THAT(with_forward("def forward(self, x):\n  return x, x\n"),
              HasSubstr("(Tensor, Tensor)"));
  EXPECT_THAT(with_forward("def forward(self):\n  return self.w\n"), HasSubstr("-> Tensor"));
  EXPECT_THAT(with_forward("def other(self, x):\n  return x\n"), HasSubstr("without forward"));
  EXPECT_EQ(load(classifier("  y: int = 3\n")).kind(), "torchscript");
}

TEST_F(TorchScript, RefusesFilesAndOptionsThatDoNotFit) {
  EXPECT_THAT(refusal(folder / "none.pt"), HasSubstr("no such file"));
  std::ofstream(folder / "text.pt") << "not a module";
  EXPECT_THAT(refusal(folder / "text.pt"), HasSubstr("text.pt"));
  torch::jit::Module empty("Empty");
  empty.define("def forward(self, x):\n  return x\n");
  EXPECT_THAT(refusal(save(empty)), HasSubstr("parameters to train"));
}

/// Compared with the same classifier with rounded operands, in double.
TEST_F(TorchScript, InBf16RoundsOperandsAndKeepsTheParameters) {
  for (const bool accelerated : {false, true}) {
    TorchScriptModel model = load(classifier(), Compute::bf16);
    model.accelerate(accelerated);
    const auto rounded = [](const at::Tensor& x) { return x.to(at::kBFloat16).to(at::kDouble); };
    const NamedParameters parameters = model.parameters();
    EXPECT_EQ(parameters[0].tensor.scalar_type(), at::kFloat);
    const at::Tensor weight = leaf(rounded(parameters[0].tensor)),
                     bias = leaf(parameters[1].tensor.to(at::kDouble));
    const at::Tensor logits = rounded(micro.inputs.flatten(1)).matmul(weight.t()) + bias;
    const at::Tensor expected =
        at::cross_entropy_loss(logits, micro.targets, {}, at::Reduction::Sum, -100);
    expected.backward();
    const Loss loss = forward(model, micro, context_of(micro));
    EXPECT_EQ(loss.sum.scalar_type(), at::kFloat) << "losses are in fp32";
    EXPECT_LT(relative_error(loss.sum, expected), 0x1p-8);
    loss.sum.backward();
    EXPECT_EQ(parameters[0].tensor.grad().scalar_type(), at::kFloat);
    EXPECT_LT(relative_error(parameters[0].tensor.grad(), weight.grad()), 0x1p-6);
    EXPECT_GT(relative_error(parameters[0].tensor.grad(), weight.grad()), 1e-5)
        << "gradients that arrive are rounded";
    EXPECT_EQ(model.accelerated_calls().products, accelerated ? 1 : 0);
  }
}

/// A scripted torch.nn.BatchNorm1d checks this with its own message.
TEST_F(TorchScript, SaysWhatTheModuleDoesNotTake) {
  TorchScriptModel model =
      load(classifier("  assert x.size(0) > 1, 'Expected more than 1 value per channel'\n"));
  const auto run = [&](std::int64_t samples) {
    const batch::MicroBatch some = random_images(tiny_image, tiny_classes, samples);
    run_segments(model, some, batch::evaluation_context(some));
  };
  const std::string message = message_of([&] { run(1); }, 1);
  EXPECT_THAT(message, HasSubstr("run the TorchScript module on 1 sample: "));
  EXPECT_THAT(message, HasSubstr("more than 1 value per channel"));
  EXPECT_THAT(message, HasSubstr("batch.micro of 2 or more"));
  EXPECT_NO_THROW(run(2));
}

}  // namespace
}  // namespace accrue::models
