#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include <barrier>
#include <filesystem>
#include <thread>

#include "accrue/core/error.h"
#include "accrue/models/resnet.h"
#include "memory/thread_meter.h"
#include "train/exact_fixture.h"
#include "train/window/layered/layered_window.h"

namespace accrue::train {
namespace {

using namespace train::testing;
using accrue::testing::tolerance;

constexpr std::int64_t channels = 5;

batch::MicroBatch images() { return random_samples({exact_samples, 3, 8, 8}, exact_classes); }

struct NetworkOptions {
  int batch_norms = 3;
  double dropout = 0;
  bool affine = true;
  at::ScalarType dtype = at::kDouble;
  /// Without the kink of ReLU, at which rounding could decide the side.
  bool smooth = false;
  models::LossFunction loss = models::class_cross_entropy;
};

/// Convolution, batch norm and an in-place ReLU, repeated.
torch::nn::Sequential network(const NetworkOptions& options) {
  at::manual_seed(3);
  torch::nn::Sequential net;
  for (int i = 0; i < options.batch_norms; ++i) {
    net->push_back(torch::nn::Conv2d(
        torch::nn::Conv2dOptions(i == 0 ? 3 : channels, channels, 3).padding(1).bias(false)));
    net->push_back(
        torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(channels).affine(options.affine)));
    if (options.smooth)
      net->push_back(torch::nn::Tanh());
    else
      net->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(true)));
    if (options.dropout > 0) net->push_back(torch::nn::Dropout(options.dropout));
  }
  net->push_back(torch::nn::AdaptiveAvgPool2d(2));
  net->push_back(torch::nn::Flatten());
  net->push_back(torch::nn::Linear(4 * channels, exact_classes));
  net->to(options.dtype);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : net->parameters())
    if (parameter.dim() == 1) parameter.add_(at::randn_like(parameter), 0.3);
  return net;
}

MakeModel sequential(const NetworkOptions& options) {
  return [options] { return models::from_sequential(network(options), options.loss, "net"); };
}

MakeModel resnet(std::int64_t layers, models::Compute compute = models::Compute::fp64) {
  return [=] {
    return std::make_unique<models::ResNet>(models::ResNetOptions{.layers = layers,
                                                                  .width = 4,
                                                                  .classes = exact_classes,
                                                                  .image = {3, 8, 8},
                                                                  .compute = compute});
  };
}

/// Each layer's rounding passes through the following layers: the larger ones are divided by a
/// standard deviation at each norm. 2^-53 times the terms of a layer's sum (9 * 5 * 64 * 9), times
/// the layers, forward and backward, times the table's safety.
double bound_for(at::ScalarType dtype, std::int64_t layers) {
  return tolerance(dtype).bound(9 * channels * 64 * exact_samples) * 2 *
         static_cast<double>(layers);
}

void expect_full_batch(const MakeModel& make, at::ScalarType dtype, std::int64_t layers) {
  const batch::MicroBatch all = images();
  const Result expected = full_batch(make, all);
  for (const std::int64_t micro : {1, 2, 3, 7, 9}) {
    const Result actual = exact_window(make, all, micro);
    EXPECT_LT(gradient_error(actual, expected), bound_for(dtype, layers)) << micro;
    EXPECT_LT(buffer_error(actual, expected), bound_for(dtype, layers)) << micro;
    EXPECT_NEAR(actual.loss_sum, expected.loss_sum, bound_for(dtype, layers) * expected.loss_sum);
    EXPECT_EQ(actual.weight, exact_samples);
  }
}

TEST(ExactWindow, IsTheFullBatchOfASequentialWithOneThreeAndTwentyBatchNorms) {
  for (const int count : {1, 3, 20})
    expect_full_batch(sequential({.batch_norms = count}), at::kDouble, count);
  EXPECT_LT(bound_for(at::kDouble, 20), 1e-10);
}

TEST(ExactWindow, IsTheFullBatchInFp32) {
  for (const int count : {1, 3, 20})
    expect_full_batch(sequential({.batch_norms = count, .dtype = at::kFloat, .smooth = true}),
                      at::kFloat, count);
}

TEST(ExactWindow, IsTheFullBatchOfAResNet) {
  for (const std::int64_t layers : {8, 20}) expect_full_batch(resnet(layers), at::kDouble, layers);
  expect_full_batch(resnet(8, models::Compute::fp32), at::kFloat, 8);
}

TEST(ExactWindow, StatisticsOfTheMicroBatchAreFarFromThat) {
  const batch::MicroBatch all = images();
  for (const MakeModel& make : {sequential({}), resnet(8)}) {
    const Result expected = full_batch(make, all);
    const Result actual = micro_statistics(make, all, 3);
    EXPECT_GT(gradient_error(actual, expected), 1e-2);
    EXPECT_GT(buffer_error(actual, expected), 1e-2);
  }
}

TEST(ExactWindow, TakesRaggedSplitsDropoutAndLayersWithoutAnAffineMap) {
  const batch::MicroBatch all = images();
  for (const NetworkOptions& options :
       {NetworkOptions{.dropout = 0.4}, NetworkOptions{.affine = false}}) {
    const Result expected = full_batch(sequential(options), all);
    const Result actual = exact_window(sequential(options), all, {{0, 4}, {4, 5}, {5, 9}});
    EXPECT_LT(gradient_error(actual, expected), bound_for(at::kDouble, 3));
    EXPECT_LT(buffer_error(actual, expected), bound_for(at::kDouble, 3));
  }
}

TEST(ExactWindow, HonoursWeightsAndMicroBatchesWithoutLabels) {
  batch::MicroBatch all = images();
  all.weights = at::linspace(0.5, 2, exact_samples);
  all.targets.narrow(0, 0, 3).fill_(-100);
  const Result expected = full_batch(sequential({}), all);
  const Result actual = exact_window(sequential({}), all, 3);
  EXPECT_LT(gradient_error(actual, expected), bound_for(at::kDouble, 3));
  EXPECT_DOUBLE_EQ(actual.weight, expected.weight);
}

TEST(ExactWindow, KeepsCutsInAFileWithTheSameBits) {
  const batch::MicroBatch all = images();
  const Result in_memory = exact_window(resnet(8), all, 2);
  const Result in_file =
      exact_window(resnet(8), all, 2, {.cut_folder = std::filesystem::temp_directory_path()});
  expect_same_bits(in_file, in_memory);
}

/// The memory for one more sample at the peak, in activations of one cut.
double cuts_per_sample(const std::function<void(const batch::MicroBatch&)>& run) {
  const auto peak = [&](std::int64_t count) {
    const batch::MicroBatch all = random_samples({count, 3, 16, 16}, exact_classes);
    const memory::ThreadMeter meter;
    run(all);
    return static_cast<double>(meter.peak());
  };
  constexpr double cut_bytes = channels * 16 * 16 * sizeof(double);
  peak(1);  // allocates everything that is made once
  return (peak(40) - peak(8)) / 32 / cut_bytes;
}

TEST(ExactWindow, KeepsOnlyTheCutsOfTheWholeBatch) {
  const MakeModel make = sequential({.batch_norms = 6});
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  EXPECT_LT(
      cuts_per_sample([&](const auto& all) { exact_window(make, all, 1, {.cut_folder = folder}); }),
      0.1);
  // Six cuts and the gradients of one.
  EXPECT_LT(cuts_per_sample([&](const auto& all) { exact_window(make, all, 1); }), 7.5);
  EXPECT_GT(cuts_per_sample([&](const auto& all) { full_batch(make, all); }), 12);
}

TEST(ExactWindow, RefusesAFolderThatIsNotThere) {
  EXPECT_THROW(exact_window(resnet(8), images(), 2, {.cut_folder = "/nowhere"}), Error);
}

/// The result of the window without the second of its three micro-batches.
Result without_second(const MakeModel& make, const batch::MicroBatch& all) {
  return exact_window(make, all, {{0, 3}, {6, 9}});
}

void expect_second_quarantined(const MakeModel& make, const batch::MicroBatch& all,
                               const std::string& reason) {
  std::vector<std::int64_t> told;
  Exact exact(make, all, {.on_quarantine = [&](const MicroRef& micro, const std::string& why) {
                told = micro.sample_ids;
                EXPECT_NE(why.find(reason), std::string::npos) << why;
              }});
  const LayeredRun run = exact.run({{0, 3}, {3, 6}, {6, 9}});
  EXPECT_EQ(run.quarantined, std::vector<std::int64_t>{1});
  EXPECT_EQ(run.micro_batches, 3);
  EXPECT_EQ(told, (std::vector<std::int64_t>{1009, 1012, 1015}));
  EXPECT_EQ(exact.window.ledger().count(MicroStatus::quarantined), 1);
  expect_same_bits(collect(*exact.model, exact.window), without_second(make, all));
}

TEST(ExactWindow, LeavesOutAMicroBatchWhoseInputsAreNotFinite) {
  batch::MicroBatch all = images();
  const at::Tensor clean = all.inputs.clone();
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    all.inputs = clean.clone();
    all.inputs[4][0][1][2] = bad;
    expect_second_quarantined(sequential({}), all, "net.input");
    expect_second_quarantined(resnet(8), all, "conv1");
  }
}

/// Even if these are a whole micro-batch: they are not part of the statistics.
TEST(ExactWindow, LeavesOutSamplesThatCannotBeRead) {
  const batch::MicroBatch all = images();
  const std::vector<batch::Range> parts{{0, 3}, {3, 5}, {5, 9}};
  Exact exact(sequential({}), all);
  LayeredWindow damaged(
      *exact.model, exact.window,
      [&](batch::Range range) {
        batch::MicroBatch part = slice(all, {range.begin, range.begin == 3 ? 3 : range.end});
        if (range.begin == 3) part.unreadable = {{1009, "damaged"}, {1012, "damaged"}};
        return part;
      },
      seed, with_window_statistics());
  exact.window.open(window_index);
  const LayeredRun run = damaged.run(window_index, parts);
  EXPECT_EQ(run.unreadable.size(), 2);
  EXPECT_EQ(run.micro_batches, 3);
  EXPECT_TRUE(run.quarantined.empty());
  expect_same_bits(collect(*exact.model, exact.window),
                   exact_window(sequential({}), all, {{0, 3}, {5, 9}}));
}

/// Cross-entropy whose sum, or gradient, is not finite if it includes the fifth sample.
models::LossFunction broken_loss(bool finite_value) {
  return [=](const at::Tensor& logits, const batch::MicroBatch& micro) {
    Loss loss = models::class_cross_entropy(logits, micro);
    for (const std::int64_t id : micro.sample_ids)
      if (id == 1012) {
        const at::Tensor zero = (logits.sum() - logits.detach().sum());
        loss.sum = finite_value ? loss.sum + at::sqrt(zero) : loss.sum / 0;
      }
    return loss;
  };
}

TEST(ExactWindow, LeavesOutAMicroBatchWhoseLossOrGradientIsNotFinite) {
  expect_second_quarantined(sequential({.loss = broken_loss(false)}), images(), "loss");
  expect_second_quarantined(sequential({.loss = broken_loss(true)}), images(), "gradient");
}

TEST(ExactWindow, FindsWhoseParameterGradientIsNotFinite) {
  // The loss reads a weight directly, so no activation's gradient shows it.
  const MakeModel make = [] {
    const auto net = network({.batch_norms = 1, .dtype = at::kFloat});
    const at::Tensor weight = net->parameters().front();
    return models::from_sequential(
        net,
        [weight](const at::Tensor& logits, const batch::MicroBatch& micro) {
          Loss loss = models::class_cross_entropy(logits, micro);
          if (micro.sample_ids.front() == 1009) {
            const at::Tensor zero = (weight - weight.detach()).sum();
            loss.sum = loss.sum + at::sqrt(zero);
          }
          return loss;
        },
        "net");
  };
  expect_second_quarantined(make, images(), "its gradient in");
}

TEST(ExactWindow, RunsAgainForTheWindowsReplay) {
  Exact exact(sequential({.dropout = 0.3}), images());
  exact.run({{0, 4}, {4, 9}});
  const Result first = collect(*exact.model, exact.window);
  exact.window.begin({.index = 1});
  at::Tensor parameter = exact.model->parameters().front().tensor;
  torch::autograd::backward({parameter.sum()});
  exact.window.abort(MicroStatus::quarantined, "a test");
  expect_same_bits(collect(*exact.model, exact.window), first);
}

TEST(ExactWindow, StopsWhereItIsToldTo) {
  for (const int steps : {0, 2, 5, 9}) {
    int asked = 0;
    Exact exact(sequential({.batch_norms = 1}), images(),
                {.interrupted = [&] { return asked++ == steps; }});
    const auto before = exact.model->buffers().front().tensor.clone();
    EXPECT_EQ(exact.run({{0, 4}, {4, 9}}).interrupted, steps < 6) << steps;
    EXPECT_EQ(exact.window.is_open(), steps >= 6);
    EXPECT_EQ(at::equal(before, exact.model->buffers().front().tensor), steps < 6);
  }
}

TEST(ExactWindow, SharesStatisticsBetweenRanks) {
  const batch::MicroBatch all = images();
  const Result expected = full_batch(resnet(8), all);
  std::barrier ready(2), taken(2);
  at::Tensor shared[2];
  const auto all_reduce_of = [&](int rank) {
    return [&, rank](at::Tensor& sums) {
      shared[rank] = sums.clone();
      ready.arrive_and_wait();
      sums.copy_(shared[0] + shared[1]);
      taken.arrive_and_wait();
    };
  };
  Result results[2];
  const std::vector<batch::Range> parts[2] = {{{0, 2}, {2, 3}}, {{3, 9}}};
  std::vector<std::thread> ranks;
  for (const int rank : {0, 1})
    ranks.emplace_back([&, rank] {
      results[rank] =
          exact_window(resnet(8), all, parts[rank], {.all_reduce = all_reduce_of(rank)});
    });
  for (std::thread& rank : ranks) rank.join();
  Result sum = results[0];
  for (auto& [name, gradient] : sum.gradients) gradient += results[1].gradients.at(name);
  EXPECT_LT(gradient_error(sum, expected), bound_for(at::kDouble, 8));
  for (const Result& result : results)
    EXPECT_LT(buffer_error(result, expected), bound_for(at::kDouble, 8));
}

TEST(ExactWindow, RefusesWhatItCannotDo) {
  const auto message = [](const std::function<void()>& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return {};
  };
  const MakeModel flat = [] {
    return models::from_sequential(
        torch::nn::Sequential(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2)),
        models::class_cross_entropy, "net");
  };
  EXPECT_NE(message([&] {
              exact_window(flat, random_samples({1, 3}, 2), 1);
            }).find("at least two values a channel"),
            std::string::npos);
  const MakeModel uncut = [] {
    auto layer = std::make_shared<torch::nn::BatchNorm1dImpl>(3);
    return models::from_module(
        layer, [layer](const batch::MicroBatch& micro) { return layer->forward(micro.inputs); },
        models::class_cross_entropy, "net");
  };
  EXPECT_NE(message([&] {
              exact_window(uncut, random_samples({4, 3}, 2), 2);
            }).find("the module runs as a whole"),
            std::string::npos);
}

}  // namespace
}  // namespace accrue::train
