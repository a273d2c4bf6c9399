#include <torch/csrc/jit/api/module.h>

#include "accrue/models/torchscript.h"
#include "models/image_support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::relative_error;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace models::testing;

constexpr double exact = 1e-13;

/// Four samples of three features, with classes and values by name.
batch::MicroBatch columns() {
  batch::MicroBatch micro;
  const at::Tensor numbers = at::arange(12, at::kFloat).view({4, 3});
  micro.columns = {{"x", numbers.sin()},
                   {"scale", numbers.select(1, 0).cos()},
                   {"kind", at::tensor({1, 0, -100, 1}, at::kLong)},
                   {"size", numbers.select(1, 2).sin()}};
  micro.inputs = micro.columns.at("x");
  micro.sample_ids = {0, 1, 2, 3};
  return micro;
}

/// A module with a weight [2, 3], defined by its methods.
torch::jit::Module module_of(const std::vector<std::string>& methods) {
  torch::jit::Module module("M");
  module.register_parameter(
      "w", (at::arange(6, at::kFloat).view({2, 3}) / 7).detach().requires_grad_(true), false);
  for (const std::string& method : methods) module.define(method);
  return module;
}

constexpr const char* two_outputs =
    "def forward(self, x, scale, shift: Optional[Tensor]=None):\n"
    "  y = torch.matmul(x, self.w.t()) * scale.unsqueeze(1)\n"
    "  if shift is not None:\n    y = y + shift.unsqueeze(1)\n"
    "  return {\"logits\": y, \"size\": y.sum(1, keepdim=True)}\n";
constexpr const char* own_loss =
    "def loss(self, x, scale, size):\n"
    "  error = (torch.matmul(x, self.w.t()) * scale.unsqueeze(1)).sum(1) - size\n"
    "  return error.square().sum(), error.numel()\n";

const std::vector<ScriptLoss> kind_and_size{{.name = "kind", .output = "logits", .target = "kind"},
                                            {.name = "size",
                                             .kind = ScriptLossKind::mse,
                                             .output = "size",
                                             .target = "size",
                                             .coefficient = 0.5}};

class ScriptLossesTest : public ::testing::Test {
 protected:
  TorchScriptModel load(const std::vector<std::string>& methods, std::vector<ScriptLoss> heads,
                        const std::string& method = "") const {
    module_of(methods).save((folder / "module.pt").string());
    return TorchScriptModel({.file = folder / "module.pt",
                             .compute = Compute::fp64,
                             .heads = std::move(heads),
                             .method = method});
  }
  std::string refused(const std::vector<std::string>& methods, std::vector<ScriptLoss> heads,
                      const std::string& method = "") const {
    return message_of([&] { load(methods, std::move(heads), method); });
  }
  static std::vector<Loss> losses_of(TorchScriptModel& model, const batch::MicroBatch& micro) {
    const ForwardContext context = context_of(micro);
    const Activations outputs = run_segments(model, micro, context);
    std::vector<Loss> losses;
    for (const LossHead& head : model.losses()) {
      losses.push_back(head.forward(outputs, micro, context, 1));
      if (!head.weight) continue;
      EXPECT_EQ(head.weight(micro), losses.back().weight) << head.name;
    }
    return losses;
  }

  /// The same with ATen: the weight, and the module's outputs.
  at::Tensor weight = (at::arange(6, at::kFloat).view({2, 3}) / 7).to(at::kDouble);
  batch::MicroBatch micro = columns();
  at::Tensor column(const std::string& name) const {
    return micro.columns.at(name).to(at::kDouble);
  }
  at::Tensor logits() const {
    return at::matmul(column("x"), weight.t()) * column("scale").unsqueeze(1);
  }

  TemporaryFolder folder;
};

TEST_F(ScriptLossesTest, ReadOutputsAndColumnsByName) {
  TorchScriptModel model = load({two_outputs}, kind_and_size);
  const std::vector<Loss> losses = losses_of(model, micro);
  EXPECT_EQ(losses.at(0).weight, 3);
  EXPECT_EQ(losses.at(1).weight, 4);
  EXPECT_EQ(model.losses().at(1).coefficient, 0.5);
  EXPECT_LT(relative_error(losses[0].sum, at::cross_entropy_loss(logits(), micro.columns.at("kind"),
                                                                 {}, at::Reduction::Sum, -100)),
            exact);
  EXPECT_LT(relative_error(losses[1].sum, (logits().sum(1) - column("size")).square().sum()),
            exact);
  EXPECT_EQ(*evaluate_losses(model, micro, batch::evaluation_context(micro)).correct,
            logits().argmax(1).eq(micro.columns.at("kind")).sum().item<double>());
}

TEST_F(ScriptLossesTest, LeaveOutThePaddingOfLists) {
  TorchScriptModel model =
      load({"def forward(self, x):\n  return x * self.w.sum()\n"},
           {{.name = "values", .kind = ScriptLossKind::mse, .target = "values"}});
  micro.columns["values"] = at::zeros({4, 3});
  micro.columns["values/length"] = at::tensor({1, 3, 2, 3}, at::kLong);
  const Loss loss = losses_of(model, micro).at(0);
  const at::Tensor values = column("x") * weight.sum();
  at::Tensor expected = values.square().sum() - values[0].slice(0, 1).square().sum() -
                        values[2].slice(0, 2).square().sum();
  EXPECT_LT(relative_error(loss.sum, expected), exact);
  EXPECT_EQ(loss.weight, 9);
}

TEST_F(ScriptLossesTest, GiveDefaultsOnlyToWhatTheDataHaveNot) {
  TorchScriptModel model = load({two_outputs}, kind_and_size);
  const double without = losses_of(model, micro).at(1).sum.item<double>();
  micro.columns["shift"] = at::ones({4});
  EXPECT_LT(relative_error(losses_of(model, micro).at(1).sum,
                           (logits().sum(1) + 2 - column("size")).square().sum()),
            exact);
  EXPECT_NE(losses_of(model, micro).at(1).sum.item<double>(), without);
}

TEST_F(ScriptLossesTest, MayBeTheModulesOwn) {
  TorchScriptModel model = load({own_loss}, {}, "loss");
  const Loss loss = losses_of(model, micro).at(0);
  weight.requires_grad_(true);
  const at::Tensor expected = (logits().sum(1) - column("size")).square().sum();
  EXPECT_LT(relative_error(loss.sum, expected), exact);
  EXPECT_EQ(loss.weight, 4);
  expected.backward();
  EXPECT_LT(relative_error(gradients_of(model, micro).at(0).tensor, weight.grad()), exact);
}

TEST_F(ScriptLossesTest, SayWhatWasFoundAndWhatToWrite) {
  EXPECT_THAT(refused({two_outputs}, {}),
              AllOf(HasSubstr("one Tensor, the logits"), HasSubstr("Dict(str, Tensor)"),
                    HasSubstr("loss.heads = [")));
  const std::string pair = "def forward(self, x):\n  return x, x\n";
  EXPECT_THAT(refused({pair}, {{.name = "a", .output = "2"}}), HasSubstr("an output \"2\""));
  const std::string mean = "def forward(self, x):\n  return (x * self.w.sum()).mean()\n";
  EXPECT_THAT(refused({mean}, {}, "forward"),
              AllOf(HasSubstr("(sum, weight)"), HasSubstr("reduction='sum'")));
  EXPECT_THAT(refused({mean}, {}, "loss"), HasSubstr("@torch.jit.export"));
  const std::string several =
      "def loss(self, x):\n  return {\"a\": (x.sum(), 1), \"b\": (x.sum(), 2)}\n";
  EXPECT_THAT(refused({several}, {}, "loss"), HasSubstr("the names of the losses in the dict"));
  EXPECT_THAT(refused({several}, {{.name = "a"}, {.name = "b"}}, "loss"),
              HasSubstr("loss_weights"));
  EXPECT_THAT(refused({own_loss}, {{.name = "a"}, {.name = "b"}}, "loss"),
              HasSubstr("one loss in loss.heads"));
}

TEST_F(ScriptLossesTest, SayWhatTheDataHaveNot) {
  TorchScriptModel model = load({two_outputs}, kind_and_size);
  const auto message = [&] { return message_of([&] { losses_of(model, micro); }); };
  micro.columns.erase("kind");
  EXPECT_THAT(message(), AllOf(HasSubstr("loss \"kind\""), HasSubstr("scale, size and x")));
  micro.columns.erase("scale");
  EXPECT_THAT(message(), AllOf(HasSubstr("\"scale\""), HasSubstr("data.columns")));
  micro = columns();
  micro.columns["size"] = at::ones({4, 2});
  EXPECT_THAT(message(), HasSubstr("loss \"size\""));
}

}  // namespace
}  // namespace accrue::models
