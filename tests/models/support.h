#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "accrue/core/error.h"
#include "accrue/models/gpt2.h"
#include "accrue/models/llama.h"

namespace accrue::models::testing {

/// An empty folder of this process that is removed after the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) /
            ("accrue_" + std::to_string(::getpid()) + '_' + test->test_suite_name() + '_' +
             test->name());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Runs `action`, which must throw an Error with exit code `exit_code`, and returns its message.
inline std::string message_of(const std::function<void()>& action, int exit_code = 2) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), exit_code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline Gpt2Options small(Compute compute = Compute::fp64) {
  return {.layers = 2, .heads = 3, .width = 24, .context = 12, .vocab = 31, .compute = compute};
}

/// A model with a feature of every family: grouped queries, heads of a different width, a local and
/// a global layer.
inline LlamaOptions small_llama(Compute compute = Compute::fp64) {
  return {.layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_width = 6,
          .width = 16,
          .ffn_width = 20,
          .context = 12,
          .vocab = 31,
          .compute = compute};
}

/// A Gemma 3 that also has Gemma 2's caps and Qwen 2's biases.
inline LlamaOptions small_llama_of_all(Compute compute = Compute::fp64) {
  LlamaOptions options = small_llama(compute);
  options.variant = {
      .tied_head = false,
      .qkv_bias = true,
      .output_bias = true,
      .qk_norm = true,
      .post_norms = true,
      .offset_norms = true,
      .scaled_embedding = true,
      .norm_eps = 1e-6,
      .activation = kernels::GateActivation::gelu_tanh,
      .window = 5,
      .local_layers = {true, false},
      .attention_soft_cap = 2,
      .logit_soft_cap = 3,
      .query_scalar = 9,
      .rotary = {.base = 500, .scaling = RotaryScaling::llama3, .factor = 4, .original_context = 8},
      .local_rotary = RotaryOptions{.base = 90}};
  return options;
}

/// Sums of up to width, context and vocabulary terms follow each other through the layers, forward
/// and backward.
inline constexpr std::int64_t small_terms = 2 * 2 * (4 * 24 + 12 + 31);

/// `rows` samples of `length` random ids; the last target of each row is ignored. `options` are a
/// language model's.
template <class Options>
batch::MicroBatch random_batch(const Options& options, std::int64_t rows, std::int64_t length,
                               std::uint64_t seed = 5) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  batch::MicroBatch micro;
  const auto ids = at::TensorOptions().dtype(at::kLong);
  micro.inputs = at::randint(0, options.vocab, {rows, length}, generator, ids);
  micro.targets = at::randint(0, options.vocab, {rows, length}, generator, ids);
  micro.targets.select(1, length - 1).fill_(-100);
  for (std::int64_t row = 0; row < rows; ++row) micro.sample_ids.push_back(row);
  micro.tokens = rows * length;
  return micro;
}

inline ForwardContext context_of(const batch::MicroBatch& micro) {
  return {.training = true, .seed = 7, .window = 3, .sample_ids = micro.sample_ids};
}

/// The whole chain, differentiable.
inline Loss forward(Trainable& model, const batch::MicroBatch& micro,
                    const ForwardContext& context) {
  return model.losses().front().forward(run_segments(model, micro, context), micro, context, 1);
}

/// Moves norms and biases away from 1 and 0, which would hide mistakes in them.
inline void perturb(const Trainable& model) {
  const at::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
  for (const auto& [name, tensor] : model.parameters())
    tensor.add_(at::randn(tensor.sizes(), generator, tensor.options()), 0.1);
}

}  // namespace accrue::models::testing
