#include "verify/config/verify_config.h"

#include <gmock/gmock.h>

#include "accrue/core/error.h"
#include "configs_to_verify.h"
#include "verify/doctor/doctor.h"

namespace accrue::proof {
namespace {

using testing::foreign_batch_norm;

class VerifyConfig : public testing::ConfigsToVerify {};

TEST_F(VerifyConfig, BatchNormIsNamedUnlessItIsExactOrConverted) {
  expect(Cause::batchnorm,
         of_resnet(models::BatchNormPolicy::error));  // which is taken as "micro" here
  expect(Cause::none, of_resnet(models::BatchNormPolicy::convert_group));
}

TEST_F(VerifyConfig, ExactBatchNormIsTheFullBatchs) {
  expect(Cause::none, of_resnet(models::BatchNormPolicy::exact));
}

constexpr const char* foreign_dropout = "  x = torch.dropout(x, 0.3, self.training)\n";

TEST_F(VerifyConfig, ForeignDropoutIsNamedUnlessItIsAccelerated) {
  expect(Cause::none, of_torchscript(""));
  train::Config config = of_torchscript(foreign_dropout);
  expect(Cause::none, config);
  config.model.accelerate = train::Accelerate::off;
  expect(Cause::dropout, config);
  const auto random_factors = "  x = x * (1 + torch.rand_like(x)) if self.training else x\n";
  EXPECT_FALSE(verify_config(of_torchscript(random_factors)).equal) << "accrue has no such masks";
}

TEST_F(VerifyConfig, ForeignBatchNormIsNamed) {
  train::Config config = of_torchscript(foreign_batch_norm);
  config.model.batchnorm = models::BatchNormPolicy::micro;
  expect(Cause::batchnorm, config);
}

TEST_F(VerifyConfig, ForeignConvolutionsAreSoundInEveryPrecision) {
  train::Config config = of_convolution("");
  for (const auto compute : {models::Compute::fp32, models::Compute::bf16, models::Compute::fp64}) {
    config.precision.compute = compute;
    expect(Cause::none, config);
  }
}

TEST_F(VerifyConfig, ForeignBatchNormIsNamedBesidesDropout) {
  train::Config config = of_convolution(std::string(foreign_batch_norm) + foreign_dropout);
  config.model.batchnorm = models::BatchNormPolicy::micro;
  config.model.accelerate = train::Accelerate::off;
  for (const auto compute : {models::Compute::fp32, models::Compute::fp64}) {
    config.precision.compute = compute;
    const Report report = verify_config(config);
    EXPECT_THAT(all_causes(report),
                ::testing::UnorderedElementsAre(Cause::dropout, Cause::batchnorm))
        << conclusion(report) << ::testing::PrintToString(report.evidence);
  }
}

TEST_F(VerifyConfig, SplitsThatBatchNormCannotRunAreSkippedAndSaid) {
  train::Config config = of_torchscript(
      "  assert x.size(0) > 1 or not self.training, 'Expected more than 1 value per channel'\n" +
      std::string(foreign_batch_norm));
  config.model.batchnorm = models::BatchNormPolicy::micro;
  const Report report = verify_config(config);
  EXPECT_EQ(to_string(report.cause), "batchnorm") << conclusion(report);
  EXPECT_GE(report.splits.size(), 4u);
  const auto skipped = [&](const std::string& name) {
    return std::ranges::any_of(report.skipped,
                               [&](const SkippedSplit& split) { return split.name == name; });
  };
  EXPECT_TRUE(skipped("micro-batches of 1"));
  EXPECT_TRUE(skipped("micro-batches of 3")) << "of 10 samples the last is alone";
  EXPECT_FALSE(skipped("micro-batches of 2"));
}

TEST_F(VerifyConfig, WhatTrainingRefusesIsRefused) {
  train::Config config = of_torchscript(foreign_batch_norm);
  using models::BatchNormPolicy;
  for (const auto policy :
       {BatchNormPolicy::convert_group, BatchNormPolicy::convert_layer, BatchNormPolicy::exact}) {
    SCOPED_TRACE(to_string(policy));
    config.model.batchnorm = policy;
    try {
      verify_config(config);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::usage);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("the model saved with group normalisation"));
    }
  }
}

TEST_F(VerifyConfig, ForeignCouplingIsNamed) {
  expect(Cause::batch_coupled_loss, of_torchscript("  x = x - x.mean(0, True)\n"));
}

TEST_F(VerifyConfig, SamplesOfUnevenLengthsAreSound) {
  std::ofstream lines(folder_ / "data.jsonl");
  for (int i = 0; i < 40; ++i)
    lines << R"({"prompt": ")" << std::string(1 + i % 5, 'a') << R"(", "completion": ")"
          << std::string(1 + i * 3 % 11, 'b') << "\"}\n";
  lines.close();
  train::Config config = base();
  config.model.layers = 2;
  config.model.heads = 2;
  config.model.width = 16;
  config.model.context = 24;
  config.model.dropout = 0.1;
  config.data.train = {(folder_ / "data.jsonl").string()};
  expect(Cause::none, config);
}

/// Each sample has one token, as samples of running text have equally many.
TEST_F(VerifyConfig, ColumnsOfANumberEachAreSound) {
  std::ofstream lines(folder_ / "data.jsonl");
  for (int i = 0; i < 40; ++i)
    lines << R"({"x": )" << 0.1 * i << R"(, "y": )" << 0.3 * i - 2 << "}\n";
  lines.close();
  torch::jit::Module module("Line");
  module.register_parameter("slope", torch::zeros({1}).requires_grad_(), false);
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(
      "def loss(self, x, y):\n"
      "  return torch.sum((self.slope * x - y) ** 2), float(x.size(0))\n");
  module.define("def forward(self, x):\n  return self.slope * x\n");
  train::Config config = of_module(module);
  config.data.format = data::Format::jsonl;
  config.data.train = {(folder_ / "data.jsonl").string()};
  config.data.columns = {"x", "y"};
  config.loss.method = "loss";
  expect(Cause::none, config);
}

TEST_F(VerifyConfig, TheDoctorFindsTheLayersThatPromisesDoNotCover) {
  const auto found = [](const train::Config& config, const std::string& id) {
    const Examination examination = doctor(config);
    return std::ranges::any_of(examination.findings,
                               [&](const Finding& finding) { return finding.id == id; });
  };
  EXPECT_TRUE(found(of_resnet(models::BatchNormPolicy::micro), "batchnorm-micro"));
  EXPECT_TRUE(found(of_resnet(models::BatchNormPolicy::error), "batchnorm-refused"));
  train::Config dropping = of_torchscript(foreign_dropout);
  EXPECT_FALSE(found(dropping, "dropout-foreign")) << "accrue makes its masks";
  dropping.model.accelerate = train::Accelerate::off;
  EXPECT_TRUE(found(dropping, "dropout-foreign"));
  EXPECT_TRUE(found(of_torchscript("  x = torch.alpha_dropout(x, 0.3, self.training)\n"),
                    "dropout-foreign"));
  EXPECT_FALSE(found(of_torchscript(""), "dropout-foreign"));
}

TEST_F(VerifyConfig, AFirstBatchWithoutLabelsIsRefused) {
  std::ofstream lines(folder_ / "data.jsonl");
  for (int i = 0; i < 20; ++i)
    lines << R"({"input_ids": [1, 2, 3], "labels": [-100, -100, )" << (i < 10 ? "-100" : "3")
          << "]}\n";
  lines.close();
  train::Config config = base();
  config.model.layers = 1;
  config.model.heads = 2;
  config.model.width = 16;
  config.model.context = 8;
  config.model.vocab = 16;
  config.data.train = {(folder_ / "data.jsonl").string()};
  config.data.order = batch::Order::sequential;
  EXPECT_THROW(verify_config(config), Error);
  const Examination examination = doctor(config);
  EXPECT_TRUE(std::ranges::any_of(examination.findings,
                                  [](const Finding& f) { return f.id == "labels-none"; }));
}

}  // namespace
}  // namespace accrue::proof
