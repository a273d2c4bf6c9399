// Samples that share a row have the results of separate samples.

#include <torch/csrc/autograd/autograd.h>

#include "accrue/models/gpt2.h"
#include "support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::relative_error;
using accrue::testing::tolerance;
using namespace models::testing;

struct Place {
  std::int64_t length, row, begin;
};

/// Three samples in the first row, which is longer than the model's context, two in the second;
/// padding between and after them.
constexpr Place places[] = {{5, 0, 0}, {12, 0, 5}, {2, 0, 18}, {7, 1, 1}, {1, 1, 10}};
constexpr std::int64_t rows = 2, columns = 20, ignored = -100;

std::vector<batch::MicroBatch> samples_of(const Gpt2Options& options) {
  std::vector<batch::MicroBatch> samples;
  std::uint64_t draw = 20;
  for (const Place& place : places) {
    batch::MicroBatch sample = random_batch(options, 1, place.length, ++draw);
    sample.targets.select(1, place.length - 1).fill_(static_cast<std::int64_t>(draw) % 7);
    sample.sample_ids = {static_cast<std::int64_t>(draw) * 31};
    sample.weights = at::rand({1, place.length}) + 0.5;
    samples.push_back(sample);
  }
  return samples;
}

batch::MicroBatch packed(const std::vector<batch::MicroBatch>& samples) {
  batch::MicroBatch micro;
  micro.inputs = at::zeros({rows, columns}, at::kLong);
  micro.targets = at::full({rows, columns}, ignored, at::kLong);
  micro.weights = at::zeros({rows, columns});
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Place& place = places[i];
    const auto put = [&](const at::Tensor& into, const at::Tensor& what) {
      into[place.row].slice(0, place.begin, place.begin + place.length).copy_(what[0]);
    };
    put(micro.inputs, samples[i].inputs);
    put(micro.targets, samples[i].targets);
    put(micro.weights, samples[i].weights);
    micro.sample_ids.push_back(samples[i].sample_ids[0]);
    micro.spans.push_back(
        {micro.sample_ids.back(), place.row, place.begin, place.begin + place.length});
    micro.tokens += place.length;
  }
  return micro;
}

struct Result {
  double sum = 0, weight = 0;
  std::vector<at::Tensor> gradients;
};

void add(Result& result, Gpt2& model, const batch::MicroBatch& micro) {
  std::vector<at::Tensor> leaves;
  for (const auto& [name, tensor] : model.parameters()) leaves.push_back(tensor);
  const Loss loss = forward(model, micro, batch::training_context(micro, 7, 3));
  result.sum += loss.sum.item<double>();
  result.weight += loss.weight;
  const auto gradients = torch::autograd::grad({loss.sum}, leaves);
  if (result.gradients.empty()) result.gradients.resize(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    at::Tensor& sum = result.gradients[i];
    sum = sum.defined() ? sum + gradients[i] : gradients[i];
  }
}

double gradient_error(const Result& actual, const Result& expected) {
  double error = 0;
  for (std::size_t i = 0; i < actual.gradients.size(); ++i)
    error = std::max(error, relative_error(actual.gradients[i], expected.gradients[i]));
  return error;
}

struct Case {
  Compute compute;
  double loss_bound, gradient_bound;
};

class Gpt2Packing : public ::testing::TestWithParam<Case> {
 protected:
  static Gpt2Options options(double dropout) {
    Gpt2Options wanted = small(GetParam().compute);
    wanted.dropout = dropout;
    return wanted;
  }
};
INSTANTIATE_TEST_SUITE_P(All, Gpt2Packing,
                         ::testing::Values(Case{Compute::fp64, 1e-13, 1e-12},
                                           Case{Compute::fp32, tolerance(at::kFloat).bound(1),
                                                tolerance(at::kFloat).bound(small_terms)},
                                           Case{Compute::bf16, tolerance(at::kBFloat16).bound(1),
                                                tolerance(at::kBFloat16).bound(small_terms)}),
                         [](const auto& param) {
                           return param.param.compute == Compute::fp64   ? "fp64"
                                  : param.param.compute == Compute::fp32 ? "fp32"
                                                                         : "bf16";
                         });

TEST_P(Gpt2Packing, GivesTheLossAndGradientsOfTheSamplesApart) {
  for (const double dropout : {0.0, 0.3}) {
    Gpt2 model(options(dropout));
    perturb(model);
    const std::vector<batch::MicroBatch> samples = samples_of(model.options());
    Result apart, together;
    for (const batch::MicroBatch& sample : samples) add(apart, model, sample);
    add(together, model, packed(samples));
    EXPECT_NEAR(together.weight, apart.weight, 1e-12 * apart.weight);
    EXPECT_NEAR(together.sum, apart.sum, GetParam().loss_bound * apart.sum);
    for (std::size_t i = 0; i < apart.gradients.size(); ++i)
      EXPECT_TRUE(accrue::testing::within(together.gradients[i], apart.gradients[i],
                                          GetParam().gradient_bound));
  }
}

TEST_P(Gpt2Packing, TheComparisonSeesSamplesThatSeeEachOther) {
  Gpt2 model(options(0));
  perturb(model);
  const std::vector<batch::MicroBatch> samples = samples_of(model.options());
  Result apart, joined;
  for (const batch::MicroBatch& sample : samples) add(apart, model, sample);
  batch::MicroBatch micro = packed(samples);
  micro.spans[1].end = 12;  // the second sample is cut, and another one has its rest
  micro.spans.push_back({999, 0, 12, 17});
  add(joined, model, micro);
  EXPECT_GT(gradient_error(joined, apart), GetParam().gradient_bound);
}

TEST(Gpt2PackedRows, RefuseASampleBeyondTheContext) {
  Gpt2 model(small());
  batch::MicroBatch micro = packed(samples_of(model.options()));
  micro.spans = {{1, 0, 0, 13}};
  EXPECT_THAT(message_of([&] { forward(model, micro, batch::training_context(micro, 7, 3)); }),
              ::testing::HasSubstr("model.context"));
}

}  // namespace
}  // namespace accrue::models
