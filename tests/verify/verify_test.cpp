#include "accrue/verify/verify.h"

#include <gmock/gmock.h>

#include "accrue/core/error.h"
#include "networks.h"

namespace accrue {
namespace {

using proof::Cause;
using testing::Batch;
using testing::regression_batch;
using testing::regression_features;
using testing::regression_samples;
using testing::small_network;
using testing::squared_error;

class Verify : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(5); }

  /// Expects `cause`, and that report and bounds agree with the verdict.
  template <class Model, class LossFn>
  proof::Report expect(Cause cause, Model& model, LossFn&& loss_fn, const Batch& batch) {
    const proof::Report report = verify(model, batch, loss_fn);
    EXPECT_EQ(to_string(report.cause), to_string(cause))
        << ::testing::PrintToString(report.evidence) << conclusion(report);
    EXPECT_EQ(report.equal, cause == Cause::none);
    if (cause != Cause::nondeterminism) {
      EXPECT_EQ(report.max_relative_error <= report.bound, report.equal);
    }
    EXPECT_EQ(report.evidence.empty(), report.equal);
    return report;
  }
};

TEST_F(Verify, ASoundModelIsPassedAndLeftAsItWas) {
  torch::nn::Sequential model = small_network(regression_features);
  const Batch batch = regression_batch(regression_samples, regression_features);
  squared_error(model, batch).sum.backward();
  std::vector<torch::Tensor> before, grads;
  for (const torch::Tensor& p : model->parameters()) {
    before.push_back(p.detach().clone());
    grads.push_back(p.grad().clone());
  }
  const torch::Tensor state = at::detail::getDefaultCPUGenerator().get_state();

  const proof::Report report = expect(Cause::none, model, squared_error, batch);
  EXPECT_EQ(report.parameters.size(), 6u);
  EXPECT_GE(report.splits.size(), 8u);
  EXPECT_LT(report.bound, 1e-4);
  EXPECT_GT(report.bound, 0);

  const auto parameters = model->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(torch::equal(parameters[i], before[i]));
    EXPECT_TRUE(torch::equal(parameters[i].grad(), grads[i]));
  }
  EXPECT_TRUE(torch::equal(at::detail::getDefaultCPUGenerator().get_state(), state));
}

TEST_F(Verify, ASoundModelInDoubleIsHeldToItsOwnBound) {
  torch::nn::Sequential model = small_network(regression_features);
  model->to(torch::kDouble);
  const proof::Report report =
      expect(Cause::none, model, squared_error,
             batch_in_double(regression_batch(regression_samples, regression_features)));
  EXPECT_LT(report.bound, 1e-12);
}

TEST_F(Verify, NamesBatchNorm) {
  for (const bool tracking : {true, false}) {
    torch::nn::Sequential model(
        torch::nn::Linear(regression_features, 8),
        torch::nn::BatchNorm1d(torch::nn::BatchNormOptions(8).track_running_stats(tracking)),
        torch::nn::Tanh(), torch::nn::Linear(8, 1));
    const Batch batch = regression_batch(12, regression_features);
    const proof::Report report = expect(Cause::batchnorm, model, squared_error, batch);
    EXPECT_GE(report.splits.size(), 5u);
    ASSERT_FALSE(report.skipped.empty()) << "a part of one sample has no variance";
    EXPECT_EQ(report.skipped.front().name, "micro-batches of 1");
    EXPECT_THAT(report.skipped.front().reason, ::testing::HasSubstr("one value per channel"));
    EXPECT_TRUE(model->is_training());
    if (tracking) {
      EXPECT_EQ(model->named_buffers()["1.num_batches_tracked"].item<int>(), 0);
    }
  }
}

TEST_F(Verify, ABatchNormInEvaluationModeIsSound) {
  torch::nn::Sequential model(torch::nn::Linear(regression_features, 8), torch::nn::BatchNorm1d(8),
                              torch::nn::Linear(8, 1));
  model->eval();
  expect(Cause::none, model, squared_error,
         regression_batch(regression_samples, regression_features));
}

TEST_F(Verify, NamesBatchNormOfATrainedModelToo) {
  torch::nn::Sequential model(torch::nn::Linear(regression_features, 16),
                              torch::nn::BatchNorm1d(16), torch::nn::ReLU(),
                              torch::nn::Linear(16, 1));
  const Batch batch = regression_batch(12, regression_features);
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  for (int step = 0; step < 400; ++step) {
    optimizer.zero_grad();
    const Loss loss = squared_error(model, batch);
    (loss.sum / loss.weight).backward();
    optimizer.step();
  }
  // Its gradient nearly vanishes in training mode, but not with running statistics.
  EXPECT_TRUE(expect(Cause::batchnorm, model, squared_error, batch).besides.empty());
}

TEST_F(Verify, NamesBatchNormBesidesDropout) {
  torch::nn::Sequential model(torch::nn::Linear(regression_features, 16),
                              torch::nn::BatchNorm1d(16), torch::nn::Dropout(0.3),
                              torch::nn::Linear(16, 1));
  const Batch batch = regression_batch(12, regression_features);
  EXPECT_EQ(expect(Cause::dropout, model, squared_error, batch).besides,
            std::vector{Cause::batchnorm});
  model[1]->as<torch::nn::BatchNorm1dImpl>()->eval();
  EXPECT_TRUE(expect(Cause::dropout, model, squared_error, batch).besides.empty())
      << "in evaluation mode it is a bystander";
}

TEST_F(Verify, NamesDropout) {
  torch::nn::Sequential model(torch::nn::Linear(regression_features, 16), torch::nn::Dropout(0.3),
                              torch::nn::Linear(16, 1));
  expect(Cause::dropout, model, squared_error,
         regression_batch(regression_samples, regression_features));
  model->eval();
  expect(Cause::none, model, squared_error,
         regression_batch(regression_samples, regression_features));
}

TEST_F(Verify, NamesWeightsThatDoNotAddUp) {
  torch::nn::Sequential model = small_network(regression_features);
  const auto mean_and_one = [](torch::nn::Sequential& m, const Batch& micro) {
    const Loss loss = squared_error(m, micro);
    return Loss{loss.sum / loss.weight, 1};
  };
  expect(Cause::weighting, model, mean_and_one,
         regression_batch(regression_samples, regression_features));
}

TEST_F(Verify, NamesAMeanInPlaceOfTheSum) {
  torch::nn::Sequential model = small_network(regression_features);
  const auto mean_and_count = [](torch::nn::Sequential& m, const Batch& micro) {
    const Loss loss = squared_error(m, micro);
    return Loss{loss.sum / loss.weight, loss.weight};
  };
  expect(Cause::weighting, model, mean_and_count,
         regression_batch(regression_samples, regression_features));
}

TEST_F(Verify, NamesAFactorThatDependsOnTheSize) {
  torch::nn::Sequential model = small_network(regression_features);
  const auto twice_when_small = [](torch::nn::Sequential& m, const Batch& micro) {
    const Loss loss = squared_error(m, micro);
    return Loss{micro[0].size(0) < regression_samples ? loss.sum * 2 : loss.sum, loss.weight};
  };
  expect(Cause::normalization, model, twice_when_small,
         regression_batch(regression_samples, regression_features));
}

TEST_F(Verify, NamesABatchCoupledLoss) {
  torch::nn::Sequential model(torch::nn::Linear(regression_features, 12), torch::nn::Tanh(),
                              torch::nn::Linear(12, 4));
  const auto in_batch_softmax = [](torch::nn::Sequential& m, const Batch& micro) {
    const torch::Tensor z = m->forward(micro[0]);
    const torch::Tensor own = torch::arange(z.size(0));
    return Loss{torch::nn::functional::cross_entropy(
                    z.matmul(z.t()), own,
                    torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum)),
                static_cast<double>(z.size(0))};
  };
  expect(Cause::batch_coupled_loss, model, in_batch_softmax,
         regression_batch(regression_samples, regression_features));
}

TEST_F(Verify, NamesNondeterminism) {
  torch::nn::Sequential model = small_network(regression_features);
  int calls = 0;
  const auto drifting = [&](torch::nn::Sequential& m, const Batch& micro) {
    const Loss loss = squared_error(m, micro);
    return Loss{loss.sum * (1 + 1e-3 * ++calls), loss.weight};
  };
  expect(Cause::nondeterminism, model, drifting,
         regression_batch(regression_samples, regression_features));
}

TEST_F(Verify, NamesPrecisionWhereFp64TakesTheDifferenceAway) {
  torch::nn::Sequential model = small_network(regression_features);
  // The large term cancels together with digits of the sum: more in a part than in the whole.
  const auto cancelling = [](torch::nn::Sequential& m, const Batch& micro) {
    const torch::Tensor shift = 3e4 * torch::ones_like(micro[1]) *
                                static_cast<double>(micro[0].size(0) == regression_samples ? 0 : 1);
    const torch::Tensor error = ((m->forward(micro[0]) - micro[1] + shift) - shift).square();
    return Loss{(error * micro[2]).sum(), micro[2].sum().item<double>()};
  };
  expect(Cause::precision, model, cancelling,
         regression_batch(regression_samples, regression_features));
}

TEST_F(Verify, NamesPrecisionWhereTheLossIsComputedBelowTheParameters) {
  torch::nn::Sequential model = small_network(regression_features);
  const auto half_way = [](torch::nn::Sequential& m, const Batch& micro) {
    torch::Tensor output = m->forward(micro[0]);
    if (micro[0].size(0) < regression_samples)
      output = output.to(torch::kBFloat16).to(micro[1].dtype());
    return Loss{((output - micro[1]).square() * micro[2]).sum(), micro[2].sum().item<double>()};
  };
  expect(Cause::precision, model, half_way,
         regression_batch(regression_samples, regression_features));
}

TEST_F(Verify, SharedFrozenAndUnusedParametersAreFine) {
  struct Tied : torch::nn::Module {
    Tied() {
      first = register_module("first", torch::nn::Linear(regression_features, regression_features));
      frozen = register_module("frozen", torch::nn::Linear(regression_features, 1));
      unused = register_module("unused", torch::nn::Linear(3, 3));
      shared = register_parameter("shared", first->weight);
      frozen->weight.requires_grad_(false);
    }
    torch::Tensor forward(const torch::Tensor& x) {
      return frozen->forward(torch::tanh(first->forward(x).matmul(shared)));
    }
    torch::nn::Linear first{nullptr}, frozen{nullptr}, unused{nullptr};
    torch::Tensor shared;
  } model;
  const auto loss = [](Tied& m, const Batch& micro) {
    return Loss{(m.forward(micro[0]) - micro[1]).square().sum(),
                static_cast<double>(micro[0].size(0))};
  };
  expect(Cause::none, model, loss, regression_batch(regression_samples, regression_features));
}

TEST_F(Verify, RefusesABatchWhoseEverySplitTheModelRefuses) {
  torch::nn::Sequential model(torch::nn::Linear(regression_features, 8), torch::nn::BatchNorm1d(8),
                              torch::nn::Linear(8, 1));
  try {
    verify(model, regression_batch(2, regression_features), squared_error);
    FAIL() << "nothing was compared";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("parts of at least 2 samples"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("a batch of at least 4"));
  }
}

TEST_F(Verify, SkipsNothingWhereAnotherErrorEndsASplit) {
  torch::nn::Sequential model = small_network(regression_features);
  const auto refusing = [](torch::nn::Sequential& m, const Batch& micro) {
    TORCH_CHECK(micro[0].size(0) > 1, "no single samples");
    return squared_error(m, micro);
  };
  EXPECT_THROW(verify(model, regression_batch(regression_samples, regression_features), refusing),
               c10::Error);
}

TEST_F(Verify, RefusesWhatCannotBeVerified) {
  torch::nn::Sequential model = small_network(regression_features);
  EXPECT_THROW(verify(model, regression_batch(1, regression_features), squared_error), Error);
  Batch weightless = regression_batch(regression_samples, regression_features);
  weightless[2].zero_();
  EXPECT_THROW(verify(model, weightless, squared_error), Error);
  Batch spoilt = regression_batch(regression_samples, regression_features);
  spoilt[0][3][0] = NAN;
  EXPECT_THROW(verify(model, spoilt, squared_error), Error);
  EXPECT_THROW(verify(model, regression_batch(regression_samples, regression_features),
                      squared_error, {.micro_batches = {0}}),
               Error);
}

}  // namespace
}  // namespace accrue
