// The guarantee as a matrix: for any weighting and any lengths, with or without dropout, in every
// precision, every split gives the gradient of one pass. From a JSONL file to the mean gradient,
// through loader and runner as in a training run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "accrue/accum/window.h"
#include "accrue/models/gpt2.h"
#include "support/tolerance.h"
#include "train/driven_runner.h"
#include "train/window/micro_batch_runner.h"

namespace accrue::train {
namespace {

constexpr std::int64_t matrix_samples = 12, matrix_context = 20, matrix_vocab = 40;

enum class Weighting { token, masked, user };
enum class Lengths { equal, uneven };

struct Precision {
  const char* name;
  models::Compute compute;
  accum::Accumulation accumulate;
  double bound;  ///< on the relative error against one pass, by largest elements
};

/// Rounding of sums of at most samples * context terms; bf16 products (mixed precision) round their
/// inputs, and the vocabulary loss rounds logits' gradients, to 2^-9. bf16 sums err by at most
/// 2^-8 (stochastic: 2^-7) of every partial sum of 12 (docs/numerics.md).
std::vector<Precision> precisions() {
  using accum::Accumulation;
  using models::Compute;
  constexpr std::int64_t terms = matrix_samples * matrix_context;
  const double single = accrue::testing::tolerance(at::kFloat).bound(terms);
  const double half = accrue::testing::tolerance(at::kBFloat16).bound(terms);
  return {{"fp64", Compute::fp64, Accumulation::fp32, 1e-12},
          {"fp32", Compute::fp32, Accumulation::fp32, single},
          {"fp32, fp64 sums", Compute::fp32, Accumulation::fp64, single},
          {"fp32, fixed sums", Compute::fp32, Accumulation::fixed, single},
          {"fp32, kahan sums", Compute::fp32, Accumulation::bf16_kahan, matrix_samples * 0x1p-15},
          {"fp32, bf16 sums", Compute::fp32, Accumulation::bf16, matrix_samples * 0x1p-7},
          {"fp32, stochastic sums", Compute::fp32, Accumulation::bf16_stochastic,
           matrix_samples * 0x1p-6},
          {"bf16", Compute::bf16, Accumulation::fp32, half}};
}

/// A line of JSONL: an array of ids, with labels and a weight.
std::string line_of(Weighting weighting, Lengths lengths, std::mt19937& random) {
  const auto up_to = [&](std::uint32_t n) { return random() % n; };
  const std::size_t length =
      lengths == Lengths::equal ? matrix_context : 2 + up_to(matrix_context - 1);
  std::string ids, labels;
  for (std::size_t i = 0; i < length; ++i) {
    const std::string id = std::to_string(up_to(matrix_vocab));
    // Some micro-batches have no label at all: they must count for nothing.
    const bool ignored = weighting != Weighting::token && (length < 5 || up_to(3) == 0);
    ids += (i == 0 ? "" : ", ") + id;
    labels += (i == 0 ? "" : ", ") + (ignored ? "-100" : id);
  }
  std::string line = "{\"input_ids\": [" + ids + "], \"labels\": [" + labels + "]";
  if (weighting == Weighting::user)
    line += ", \"weight\": " + std::to_string(up_to(5)) + "." + std::to_string(up_to(10));
  return line + "}\n";
}

class Matrix : public ::testing::TestWithParam<std::tuple<Weighting, Lengths, bool>> {
 protected:
  void SetUp() override {
    const auto [weighting, lengths, dropout] = GetParam();
    file_ = std::filesystem::path(::testing::TempDir()) /
            ("matrix-" + std::to_string(::getpid()) + '-' +
             std::to_string(static_cast<int>(weighting)) +
             std::to_string(static_cast<int>(lengths)) + (dropout ? "d" : "") + ".jsonl");
    std::mt19937 random(5);
    std::ofstream out(file_);
    for (std::int64_t i = 0; i < matrix_samples; ++i) out << line_of(weighting, lengths, random);
  }
  void TearDown() override { std::filesystem::remove(file_); }

  std::shared_ptr<const data::Source> source(bool packing) const {
    return data::open_source({.globs = {file_.string()},
                              .context = matrix_context,
                              .vocab = matrix_vocab,
                              .packing = packing},
                             "data.train");
  }

  /// The mean gradient of one window over all samples, flat, in fp64.
  at::Tensor gradient(const Precision& precision, std::int64_t micro, bool packing = false) const {
    models::Gpt2 model({.layers = 2,
                        .heads = 2,
                        .width = 16,
                        .context = matrix_context,
                        .vocab = matrix_vocab,
                        .dropout = std::get<2>(GetParam()) ? 0.2 : 0,
                        .compute = precision.compute});
    accum::Window window(
        std::make_shared<accum::GradientBuffer>(model.parameters(), precision.accumulate));
    data::Loader loader(source(packing), {matrix_samples, batch::Order::shuffle, 3});
    testing::DrivenRunner<MicroBatchRunner> runner(model, window, loader, 7);
    WindowRun run = runner.run(2, {matrix_samples, 2 * matrix_samples}, micro);
    run.gradient->materialize();
    std::vector<at::Tensor> parts;
    for (const auto& entry : run.gradient->buffer().entries())
      parts.push_back(entry.parameter.grad().to(at::kDouble).flatten());
    return at::cat(parts);
  }

 private:
  std::filesystem::path file_;
};

TEST_P(Matrix, EverySplitGivesTheGradientOfOnePass) {
  for (const Precision& precision : precisions()) {
    // The reference sums without loss of precision: one micro-batch, each weight one or two terms.
    Precision exact = precision;
    exact.accumulate = accum::Accumulation::fp32;
    const at::Tensor one_pass = gradient(exact, matrix_samples);
    ASSERT_GT(one_pass.abs().max().item<double>(), 0);
    for (const std::int64_t micro :
         {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, matrix_samples})
      EXPECT_TRUE(accrue::testing::within(gradient(precision, micro), one_pass, precision.bound))
          << precision.name << ", micro-batches of " << micro;
  }
}

TEST_P(Matrix, PackedRowsGiveTheSameGradient) {
  const Precision fp64 = precisions().front();
  const at::Tensor one_pass = gradient(fp64, matrix_samples);
  for (const std::int64_t micro : {std::int64_t{3}, matrix_samples})
    EXPECT_LE(accrue::testing::relative_error(gradient(fp64, micro, true), one_pass), fp64.bound);
}

INSTANTIATE_TEST_SUITE_P(
    All, Matrix,
    ::testing::Combine(::testing::Values(Weighting::token, Weighting::masked, Weighting::user),
                       ::testing::Values(Lengths::equal, Lengths::uneven), ::testing::Bool()));

}  // namespace
}  // namespace accrue::train
