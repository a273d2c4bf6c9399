#include "verify/verify_config.h"

#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>

#include "accrue/core/error.h"
#include "verify/doctor.h"

namespace accrue::proof {
namespace {

constexpr int images = 30, side = 12, classes = 3;

void write_big_endian(std::ofstream& file, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(value >> shift));
}

constexpr const char* foreign_batch_norm =
    "  x = torch.batch_norm(x, None, None, self.mean, self.var, self.training, 0.1, 1e-5, "
    "False)\n";

class VerifyConfig : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("accrue_verify_config_") + info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  train::Config base() const {
    train::Config c;
    c.run.out = (folder_ / "run").string();
    c.run.steps = 4;
    c.run.threads = 2;
    c.batch.samples = 10;
    c.batch.micro = 4;
    c.optim.lr = 1e-2;
    c.optim.eps = 1e-5;
    return c;
  }

  /// Handwriting-like noise with a label each, in MNIST's format.
  train::Config of_images(train::ModelKind kind) const {
    std::ofstream pictures(folder_ / "train-images-idx3-ubyte", std::ios::binary);
    std::ofstream labels(folder_ / "train-labels-idx1-ubyte", std::ios::binary);
    for (const std::uint32_t word :
         {0x803u, std::uint32_t(images), std::uint32_t(side), std::uint32_t(side)})
      write_big_endian(pictures, word);
    for (const std::uint32_t word : {0x801u, std::uint32_t(images)}) write_big_endian(labels, word);
    for (int i = 0; i < images; ++i) {
      labels.put(static_cast<char>(i % classes));
      for (int p = 0; p < side * side; ++p)
        pictures.put(static_cast<char>((i * 7919 + p * 104729 + i * p * 31) % 251));
    }
    train::Config c = base();
    c.model.kind = kind;
    c.data.format = data::Format::images;
    c.data.train = {(folder_ / "train-images-idx3-ubyte").string()};
    return c;
  }

  train::Config of_resnet(models::BatchNormPolicy policy) const {
    train::Config c = of_images(train::ModelKind::resnet);
    c.model.layers = 8;
    c.model.width = 4;
    c.batch.samples = 6;  // convolutions are compiled anew for each number of samples
    c.model.batchnorm = policy;
    return c;
  }

  train::Config of_module(const torch::jit::Module& module) const {
    train::Config c = of_images(train::ModelKind::torchscript);
    c.model.from = (folder_ / "model.pt").string();
    module.save(c.model.from);
    return c;
  }

  /// A classifier by one convolution, whose maps go through `body`.
  train::Config of_convolution(const std::string& body) const {
    torch::manual_seed(4);
    torch::jit::Module module("Classifier");
    const std::int64_t features = 8;
    module.register_parameter("first", (0.3 * torch::randn({features, 1, 3, 3})).requires_grad_(),
                              false);
    module.register_parameter("bias", torch::zeros({features}).requires_grad_(), false);
    module.register_parameter("second", torch::randn({classes, features}).requires_grad_(), false);
    module.register_buffer("mean", torch::zeros({features}));
    module.register_buffer("var", torch::ones({features}));
    module.register_attribute("training", c10::BoolType::get(), true);
    module.define("def forward(self, x):\n" +
                  std::string("  x = torch.conv2d(x, self.first, self.bias, [1, 1], [1, 1])\n") +
                  body + "  return torch.matmul(torch.relu(x).mean([2, 3]), self.second.t())\n");
    return of_module(module);
  }

  /// A classifier whose features go through `body`.
  train::Config of_torchscript(const std::string& body) const {
    torch::manual_seed(4);
    torch::jit::Module module("Classifier");
    const std::int64_t features = 8;
    module.register_parameter(
        "first", (0.1 * torch::randn({features, side * side})).requires_grad_(), false);
    module.register_parameter("second", (0.5 * torch::randn({classes, features})).requires_grad_(),
                              false);
    module.register_buffer("mean", torch::zeros({features}));
    module.register_buffer("var", torch::ones({features}));
    module.register_attribute("training", c10::BoolType::get(), true);
    module.define("def forward(self, x):\n  x = torch.flatten(x, 1)\n" +
                  std::string("  x = torch.tanh(torch.matmul(x, self.first.t()))\n") + body +
                  "  return torch.matmul(x, self.second.t())\n");
    return of_module(module);
  }

  static void expect(Cause cause, const train::Config& config) {
    const Report report = verify_config(config);
    EXPECT_EQ(to_string(report.cause), to_string(cause))
        << conclusion(report) << ::testing::PrintToString(report.evidence);
    EXPECT_EQ(report.max_relative_error <= report.bound, cause == Cause::none);
  }

  std::filesystem::path folder_;
};

TEST_F(VerifyConfig, BatchNormIsNamedUnlessItIsExactOrConverted) {
  expect(Cause::batchnorm,
         of_resnet(models::BatchNormPolicy::error));  // which is taken as "micro" here
  expect(Cause::none, of_resnet(models::BatchNormPolicy::convert_group));
}

TEST_F(VerifyConfig, ExactBatchNormIsTheFullBatchs) {
  expect(Cause::none, of_resnet(models::BatchNormPolicy::exact));
}

TEST_F(VerifyConfig, ForeignDropoutIsNamed) {
  expect(Cause::none, of_torchscript(""));
  expect(Cause::dropout, of_torchscript("  x = torch.dropout(x, 0.3, self.training)\n"));
}

TEST_F(VerifyConfig, ForeignBatchNormIsNamed) {
  train::Config config = of_torchscript(foreign_batch_norm);
  config.model.batchnorm = models::BatchNormPolicy::micro;
  expect(Cause::batchnorm, config);
}

TEST_F(VerifyConfig, ForeignConvolutionsAreSoundInEveryPrecision) {
  train::Config config = of_convolution("");
  for (const auto compute : {models::Compute::fp32, models::Compute::fp64}) {
    config.precision.compute = compute;
    expect(Cause::none, config);
  }
}

TEST_F(VerifyConfig, ForeignBatchNormIsNamedBesidesDropout) {
  train::Config config = of_convolution(std::string(foreign_batch_norm) +
                                        "  x = torch.dropout(x, 0.3, self.training)\n");
  config.model.batchnorm = models::BatchNormPolicy::micro;
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

TEST_F(VerifyConfig, TheDoctorFindsTheLayersThatPromisesDoNotCover) {
  const auto found = [](const train::Config& config, const std::string& id) {
    const Examination examination = doctor(config);
    return std::ranges::any_of(examination.findings,
                               [&](const Finding& finding) { return finding.id == id; });
  };
  EXPECT_TRUE(found(of_resnet(models::BatchNormPolicy::micro), "batchnorm-micro"));
  EXPECT_TRUE(found(of_resnet(models::BatchNormPolicy::error), "batchnorm-refused"));
  EXPECT_TRUE(
      found(of_torchscript("  x = torch.dropout(x, 0.3, self.training)\n"), "dropout-foreign"));
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
