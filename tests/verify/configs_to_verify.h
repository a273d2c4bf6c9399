#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "verify/config/verify_config.h"

namespace accrue::proof::testing {

inline constexpr int images = 30, side = 12, classes = 3;

inline void write_big_endian(std::ofstream& file, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(value >> shift));
}

inline constexpr const char* foreign_batch_norm =
    "  x = torch.batch_norm(x, None, None, self.mean, self.var, self.training, 0.1, 1e-5, "
    "False)\n";

/// A separate folder for each test, and configs for the data that it writes there.
class ConfigsToVerify : public ::testing::Test {
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

  /// A language model with dropout, on a small text.
  train::Config of_text() const {
    std::ofstream text(folder_ / "text.txt");
    for (int i = 0; i < 60; ++i) text << "line " << i * 7919 % 1000 << " of a small text\n";
    train::Config c = base();
    c.model.layers = 3;
    c.model.heads = 2;
    c.model.width = 16;
    c.model.context = 12;
    c.model.dropout = 0.2;
    c.data.train = {(folder_ / "text.txt").string()};
    return c;
  }

  /// Handwriting-like noise with labels, in MNIST's format.
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
    c.batch.samples = 6;  // convolutions are compiled for each number of samples
    c.model.batchnorm = policy;
    return c;
  }

  train::Config of_module(const torch::jit::Module& module) const {
    train::Config c = of_images(train::ModelKind::torchscript);
    c.model.from = (folder_ / "model.pt").string();
    module.save(c.model.from);
    return c;
  }

  /// A classifier with one convolution, followed by `body`.
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
    if (body.find("self.unused") != std::string::npos)
      module.register_parameter("unused", torch::ones({features}).requires_grad_(), false);
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

}  // namespace accrue::proof::testing
