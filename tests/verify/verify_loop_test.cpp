#include <gmock/gmock.h>

#include "accrue/accum/accumulator.h"
#include "accrue/core/error.h"
#include "accrue/verify/verify.h"
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

using Model = torch::nn::Sequential;
using Slices = std::vector<Batch>;

class VerifyLoop : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(6); }

  template <class Loop>
  proof::Report expect(Cause cause, Loop&& loop, VerifyOptions options = {}) {
    const proof::Report report = verify_loop(model_, batch_, squared_error, loop, options);
    EXPECT_EQ(to_string(report.cause), to_string(cause))
        << ::testing::PrintToString(report.evidence) << conclusion(report);
    EXPECT_EQ(report.equal, cause == Cause::none);
    EXPECT_EQ(report.max_relative_error <= report.bound, report.equal);
    return report;
  }

  Model model_ = small_network(regression_features);
  Batch batch_ = regression_batch(regression_samples, regression_features);
};

void backward_of_mean(Model& model, const Batch& micro, double divisor) {
  const Loss loss = squared_error(model, micro);
  (loss.sum / loss.weight / divisor).backward();
}

TEST_F(VerifyLoop, PassesALoopThatDividesByTheTotalWeight) {
  const auto report = expect(Cause::none, [](Model& m, const Slices& slices) {
    double total = 0;
    for (const Batch& micro : slices) total += micro[2].sum().item<double>();
    for (const Batch& micro : slices) (squared_error(m, micro).sum / total).backward();
  });
  EXPECT_THAT(report.ruled_out, ::testing::IsEmpty());
}

TEST_F(VerifyLoop, PassesAnAccumulatorAndAStepAtTheEnd) {
  const auto loop = [](Model& m, const Batch& batch, std::int64_t micro) {
    torch::optim::SGD optimizer(m->parameters(), 0.1);
    Accumulator accumulator(m->parameters());
    for (std::int64_t begin = 0; begin < regression_samples; begin += micro)
      accumulator.backward(
          squared_error(m, batch_slice(batch, begin, std::min(begin + micro, regression_samples))));
    accumulator.step(optimizer);
  };
  const torch::Tensor before = model_->parameters()[0].detach().clone();
  expect(Cause::none, loop);
  EXPECT_TRUE(torch::equal(model_->parameters()[0], before)) << "parameters are put back";
}

TEST_F(VerifyLoop, NamesTheMeanOfMeans) {
  const proof::Report report = expect(Cause::weighting, [](Model& m, const Slices& slices) {
    for (const Batch& micro : slices)
      backward_of_mean(m, micro, static_cast<double>(slices.size()));
  });
  EXPECT_THAT(report.evidence, ::testing::Contains(::testing::HasSubstr("mean of the micro")));
  EXPECT_THAT(report.ruled_out,
              ::testing::IsSupersetOf({::testing::StartsWith("stepped-mid-window: "),
                                       ::testing::StartsWith("zeroed-mid-window: "),
                                       ::testing::StartsWith("nondeterminism: "),
                                       ::testing::StartsWith("normalization: ")}));
  EXPECT_THAT(report.ruled_out,
              ::testing::Not(::testing::Contains(::testing::StartsWith("weighting: "))));
}

TEST_F(VerifyLoop, NamesAConstantFactor) {
  const auto factor = [](double scale) {
    return [=](Model& m, const Slices& slices) {
      double total = 0;
      for (const Batch& micro : slices) total += micro[2].sum().item<double>();
      for (const Batch& micro : slices) (squared_error(m, micro).sum * (scale / total)).backward();
    };
  };
  expect(Cause::normalization, factor(0.3));
  expect(Cause::scaled_twice, factor(0.2));  // of five micro-batches
  expect(Cause::normalization, factor(1.001));
  expect(Cause::none, factor(1));
  const proof::Report sum = expect(Cause::normalization, [](Model& m, const Slices& slices) {
    for (const Batch& micro : slices) squared_error(m, micro).sum.backward();
  });
  EXPECT_THAT(sum.evidence,
              ::testing::Contains(::testing::HasSubstr("a sum in place of the mean")));
}

TEST_F(VerifyLoop, NamesADivisionTooMany) {
  const proof::Report report = expect(Cause::weighting, [](Model& m, const Slices& slices) {
    const auto parts = static_cast<double>(slices.size());
    for (const Batch& micro : slices) backward_of_mean(m, micro, parts * parts);
  });
  EXPECT_THAT(report.besides, ::testing::ElementsAre(Cause::scaled_twice));
}

TEST_F(VerifyLoop, NamesALoopOfWhichTheLastMicroBatchSurvives) {
  expect(Cause::last_micro_batch_only, [](Model& m, const Slices& slices) {
    backward_of_mean(m, slices.back(), static_cast<double>(slices.size()));
  });
}

TEST_F(VerifyLoop, NamesMicroBatchesThatAreClippedEach) {
  const proof::Report report =
      expect(Cause::clip_per_micro_batch, [](Model& m, const Slices& slices) {
        const std::vector<torch::Tensor> parameters = m->parameters();
        for (const Batch& micro : slices) {
          const Loss loss = squared_error(m, micro);
          std::vector<torch::Tensor> grads =
              torch::autograd::grad({loss.sum / loss.weight}, parameters);
          torch::Tensor squares = torch::zeros({});
          for (const torch::Tensor& grad : grads) squares += grad.square().sum();
          const double limit = 1e-3, norm = squares.sqrt().item<double>();
          for (std::size_t i = 0; i < grads.size(); ++i) {
            const torch::Tensor clipped = grads[i] * (limit / norm);
            torch::Tensor& sum = parameters[i].mutable_grad();
            sum = sum.defined() ? sum + clipped : clipped;
          }
        }
      });
  EXPECT_THAT(report.evidence, ::testing::Contains(::testing::HasSubstr("to one norm")));
}

TEST_F(VerifyLoop, NamesASkippedMicroBatch) {
  expect(Cause::weighting, [](Model& m, const Slices& slices) {
    for (std::size_t i = 0; i + 1 < slices.size(); ++i)
      backward_of_mean(m, slices[i], static_cast<double>(slices.size() - 1));
  });
}

TEST_F(VerifyLoop, NamesAZeroGradInsideTheWindow) {
  for (const bool to_none : {true, false})
    for (const std::size_t at : {1u, 3u}) {
      const proof::Report report =
          expect(Cause::zeroed_mid_window, [=](Model& m, const Slices& slices) {
            for (std::size_t i = 0; i < slices.size(); ++i) {
              if (i == at) m->zero_grad(to_none);
              backward_of_mean(m, slices[i], static_cast<double>(slices.size()));
            }
          });
      EXPECT_THAT(
          report.evidence,
          ::testing::Contains(::testing::HasSubstr("from " + std::to_string(at + 1) + " on")));
    }
}

TEST_F(VerifyLoop, AZeroGradBeforeTheFirstMicroBatchIsFine) {
  expect(Cause::none, [](Model& m, const Slices& slices) {
    m->zero_grad();
    double total = 0;
    for (const Batch& micro : slices) total += micro[2].sum().item<double>();
    for (const Batch& micro : slices) (squared_error(m, micro).sum / total).backward();
  });
}

TEST_F(VerifyLoop, NamesGradientsClearedAtTheEnd) {
  expect(Cause::zeroed_mid_window, [](Model& m, const Slices& slices) {
    for (const Batch& micro : slices) backward_of_mean(m, micro, 1);
    m->zero_grad();
  });
}

TEST_F(VerifyLoop, NamesAStepInsideTheWindow) {
  const auto loop = [](double rate) {
    return [=](Model& m, const Slices& slices) {
      torch::optim::SGD optimizer(m->parameters(), rate);
      double total = 0;
      for (const Batch& micro : slices) total += micro[2].sum().item<double>();
      for (const Batch& micro : slices) {
        (squared_error(m, micro).sum / total).backward();
        optimizer.step();
      }
    };
  };
  expect(Cause::stepped_mid_window, loop(0.1));
  expect(Cause::stepped_mid_window, loop(1e-3));
}

TEST_F(VerifyLoop, NamesGradientsKeptInBfloat16) {
  expect(Cause::precision,
         [](Model& m, const Slices& slices) {
           std::vector<torch::Tensor> sums;
           double total = 0;
           for (const Batch& micro : slices) total += micro[2].sum().item<double>();
           for (const Batch& micro : slices) {
             const auto grads =
                 torch::autograd::grad({squared_error(m, micro).sum / total}, m->parameters());
             for (std::size_t i = 0; i < grads.size(); ++i) {
               const torch::Tensor low = grads[i].to(torch::kBFloat16);
               if (sums.size() <= i) {
                 sums.push_back(low);
               } else {
                 sums[i].add_(low);
               }
             }
           }
           for (std::size_t i = 0; i < sums.size(); ++i)
             m->parameters()[i].mutable_grad() = sums[i].to(torch::kFloat);
         },
         {.loop_micro_batch = 1});
}

TEST_F(VerifyLoop, NamesALoopThatDoesNotRepeat) {
  int calls = 0;
  expect(Cause::nondeterminism, [&](Model& m, const Slices& slices) {
    for (const Batch& micro : slices) backward_of_mean(m, micro, ++calls);
  });
}

TEST_F(VerifyLoop, RefusesOneMicroBatch) {
  const auto sums_means = [](Model& m, const Slices& slices) {
    for (const Batch& micro : slices) backward_of_mean(m, micro, 1);
  };
  for (const std::int64_t size : {regression_samples, 10 * regression_samples})
    EXPECT_THROW(verify_loop(model_, batch_, squared_error, sums_means, {.loop_micro_batch = size}),
                 Error);
  EXPECT_FALSE(verify_loop(model_, batch_, squared_error, sums_means,
                           {.loop_micro_batch = regression_samples - 1})
                   .equal);
}

TEST_F(VerifyLoop, RefusesALoopWithoutABackwardPass) {
  const auto forward_only = [](Model& m, const Slices& slices) {
    for (const Batch& micro : slices) squared_error(m, micro);
  };
  try {
    verify_loop(model_, batch_, squared_error, forward_only);
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_THAT(error.received(), ::testing::HasSubstr("no backward pass"));
  }
}

TEST_F(VerifyLoop, NamesALossThatIsNotSoundByItself) {
  Model with_dropout(torch::nn::Linear(regression_features, 8), torch::nn::Dropout(0.5),
                     torch::nn::Linear(8, 1));
  const proof::Report report =
      verify_loop(with_dropout, batch_, squared_error, [](Model& m, const Slices& slices) {
        for (const Batch& micro : slices) squared_error(m, micro).sum.backward();
      });
  EXPECT_EQ(report.cause, Cause::dropout);
}

}  // namespace
}  // namespace accrue
