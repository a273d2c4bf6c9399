#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "accrue/models/torchscript.h"

namespace accrue::train::testing {

/// A network for images of 64 pixels and 4 classes in TorchScript, whose interpreter has its own
/// error handling.
inline std::unique_ptr<models::Trainable> tiny_torchscript() {
  torch::jit::Module module("Network");
  const auto parameter = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    const at::Tensor values = at::sin(at::arange(rows * columns, at::kFloat)) * 0.3;
    module.register_parameter(name, values.view({rows, columns}).requires_grad_(true), false);
  };
  parameter("first", 64, 6);
  parameter("second", 6, 4);
  module.define(
      "def forward(self, x):\n"
      "  h = torch.tanh(torch.matmul(torch.flatten(x, 1), self.first))\n"
      "  return torch.matmul(h, self.second)\n");
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string("accrue_") + test->test_suite_name() + test->name() + ".pt";
  std::ranges::replace(name, '/', '_');
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / name;
  module.save(file.string());
  auto model = std::make_unique<models::TorchScriptModel>(
      models::TorchScriptOptions{.file = file, .compute = models::Compute::fp32});
  std::filesystem::remove(file);
  return model;
}

}  // namespace accrue::train::testing
