// Batch normalisation over a whole window, special cases: shapes, places, statistics, conditioning.
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include <algorithm>

#include "accrue/core/error.h"
#include "train/exact_fixture.h"

namespace accrue::train {
namespace {

using namespace train::testing;
using namespace torch::nn;

constexpr std::int64_t width = 5;

using MakeNetwork = std::function<Sequential()>;

MakeModel model_of(const MakeNetwork& make, at::ScalarType dtype = at::kDouble) {
  return [=] {
    at::manual_seed(3);
    Sequential network = make();
    {
      const at::NoGradGuard no_grad;
      for (at::Tensor& parameter : network->parameters())  // away from 1 and 0
        if (parameter.dim() == 1) parameter.add_(at::randn_like(parameter), 0.3);
    }
    network->to(dtype);
    return models::from_sequential(network, models::class_cross_entropy, "net");
  };
}

void expect_full_batch(const MakeNetwork& make, const batch::MicroBatch& all) {
  const MakeModel model = model_of(make);
  const Result expected = full_batch(model, all);
  for (const std::int64_t micro : {1, 2, 7}) {
    const Result actual = exact_window(model, all, micro);
    EXPECT_LT(gradient_error(actual, expected), 1e-11) << micro;
    EXPECT_LT(buffer_error(actual, expected), 1e-12) << micro;
  }
}

batch::MicroBatch flat() { return random_samples({exact_samples, width}, exact_classes); }

TEST(ExactLayers, ABatchNormMayStandAnywhere) {
  expect_full_batch([] { return Sequential(BatchNorm1d(width), Linear(width, exact_classes)); },
                    flat());
  expect_full_batch(
      [] {
        return Sequential(Linear(width, width), BatchNorm1d(width), BatchNorm1d(width), Tanh(),
                          Linear(width, exact_classes));
      },
      flat());
  expect_full_batch(
      [] { return Sequential(Linear(width, exact_classes), BatchNorm1d(exact_classes)); }, flat());
}

TEST(ExactLayers, SequencesAndSingleImagesHaveStatisticsToo) {
  expect_full_batch(
      [] {
        return Sequential(Conv1d(Conv1dOptions(3, width, 3)), BatchNorm1d(width), Tanh(),
                          AdaptiveAvgPool1d(1), Flatten(), Linear(width, exact_classes));
      },
      random_samples({exact_samples, 3, 6}, exact_classes));
  expect_full_batch(
      [] {
        return Sequential(Conv2d(Conv2dOptions(3, width, 3)), BatchNorm2d(width), Tanh(),
                          AdaptiveAvgPool2d(1), Flatten(), Linear(width, exact_classes));
      },
      random_samples({1, 3, 6, 6}, exact_classes));
}

TEST(ExactLayers, OptionsOfTheLayerAreHonoured) {
  for (const BatchNormOptions& options :
       {BatchNormOptions(width).eps(0.5), BatchNormOptions(width).momentum(0.7),
        BatchNormOptions(width).track_running_stats(false),
        BatchNormOptions(width).affine(false).track_running_stats(false)})
    expect_full_batch(
        [&] {
          return Sequential(Linear(width, width), BatchNorm1d(options), Tanh(),
                            Linear(width, exact_classes));
        },
        flat());
  expect_full_batch(
      [] {
        BatchNorm1d frozen(width);
        frozen->weight.requires_grad_(false);
        frozen->bias.requires_grad_(false);
        return Sequential(Linear(width, width), frozen, Tanh(), Linear(width, exact_classes));
      },
      flat());
}

TEST(ExactLayers, CumulativeAveragesAreRefusedWithTheReason) {
  const MakeModel model = model_of([] {
    return Sequential(BatchNorm1d(BatchNormOptions(width).momentum(std::nullopt)),
                      Linear(width, exact_classes));
  });
  try {
    exact_window(model, flat(), 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cumulative averages"), std::string::npos)
        << error.what();
  }
}

TEST(ExactLayers, AChannelWithoutVarianceIsTheFullBatchs) {
  batch::MicroBatch all = flat();
  all.inputs.select(1, 2).fill_(3.7);
  expect_full_batch([] { return Sequential(BatchNorm1d(width), Linear(width, exact_classes)); },
                    all);
}

TEST(ExactLayers, AModuleThatWorksInPlaceLeavesTheInputsAlone) {
  batch::MicroBatch all = flat();
  all.inputs = all.inputs.to(at::kDouble);
  const at::Tensor before = all.inputs.clone();
  expect_full_batch(
      [] {
        return Sequential(LeakyReLU(LeakyReLUOptions().negative_slope(0.5).inplace(true)),
                          BatchNorm1d(width), Linear(width, exact_classes));
      },
      all);
  EXPECT_TRUE(at::equal(all.inputs, before));
}

/// Distances from fp64's full batch: those of fp32's full batch, and of fp32's exact window.
struct Distances {
  double full, exact;
};

Distances distances(const MakeNetwork& make, const batch::MicroBatch& all, std::int64_t micro) {
  const Result truth = full_batch(model_of(make), all);
  const auto distance = [&](const Result& actual) {
    Result wide = actual;
    for (auto& [name, gradient] : wide.gradients) gradient = gradient.to(at::kDouble);
    return gradient_error(wide, truth);
  };
  const MakeModel narrow = model_of(make, at::kFloat);
  return {distance(full_batch(narrow, all)), distance(exact_window(narrow, all, micro))};
}

TEST(ExactLayers, ALargeMeanCostsNoMoreDigitsThanInTheFullBatch) {
  batch::MicroBatch all = flat();
  for (const double mean : {0.0, 1e2, 1e4}) {
    batch::MicroBatch shifted = all;
    shifted.inputs = (all.inputs + mean).to(at::kFloat);
    const Distances found = distances(
        [] { return Sequential(BatchNorm1d(width), Tanh(), Linear(width, exact_classes)); },
        shifted, 2);
    RecordProperty("mean_" + std::to_string(int(mean)),
                   std::to_string(found.full) + " " + std::to_string(found.exact));
    EXPECT_LT(found.exact, 1e-5 + 2 * found.full) << mean;
  }
}

/// Twenty narrow layers amplify rounding, and a ReLU depends on it: in fp32 the full batch itself
/// differs much from fp64's. The exact window does not differ more, over several networks.
TEST(ExactLayers, TwentyNarrowReluLayersAreAsFarFromFp64AsTheFullBatchIs) {
  std::vector<double> full, exact;
  for (std::uint64_t start = 0; start < 3; ++start) {
    const Distances found = distances(
        [start] {
          at::manual_seed(100 + start);
          Sequential network;
          for (int i = 0; i < 20; ++i) {
            network->push_back(Conv2d(Conv2dOptions(i == 0 ? 3 : width, width, 3).padding(1)));
            network->push_back(BatchNorm2d(width));
            network->push_back(ReLU(ReLUOptions(true)));
          }
          network->push_back(AdaptiveAvgPool2d(1));
          network->push_back(Flatten());
          network->push_back(Linear(width, exact_classes));
          return network;
        },
        random_samples({exact_samples, 3, 8, 8}, exact_classes), 2);
    full.push_back(found.full);
    exact.push_back(found.exact);
  }
  std::ranges::sort(full);
  std::ranges::sort(exact);
  RecordProperty("median_of_full_batch", std::to_string(full[1]));
  RecordProperty("median_of_exact_window", std::to_string(exact[1]));
  RecordProperty("largest_of_full_batch", std::to_string(full.back()));
  RecordProperty("largest_of_exact_window", std::to_string(exact.back()));
  EXPECT_GT(full.back(), 1e-4) << "well conditioned: this says nothing";
  EXPECT_LT(exact[1], 4 * full[1]);
}

}  // namespace
}  // namespace accrue::train
