// Omitted comparisons are reported with their reason, and then the result is not "Equal".
#include <gmock/gmock.h>

#include "changed_model.h"
#include "configs_to_verify.h"
#include "verify/config/config_subject.h"
#include "verify/config/draws_check.h"

namespace accrue::proof {
namespace {

using testing::ChangedModel;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class LeftOut : public testing::ConfigsToVerify {
 protected:
  static std::string why(const Report& report) {
    return conclusion(report) + ::testing::PrintToString(report.evidence) +
           ::testing::PrintToString(report.left_out);
  }
  static bool compares(const Report& report, const std::string& name) {
    return std::ranges::find(report.splits, name, &SplitResult::name) != report.splits.end();
  }
};

TEST_F(LeftOut, RanksThatWereAskedForAndSkipped) {
  train::Config config = of_text();
  config.dist.compress = distributed::Compression::int8;
  const Report report = verify_config(config, {.ranks = 2});
  EXPECT_TRUE(report.equal) << why(report);
  EXPECT_FALSE(report.complete);
  EXPECT_THAT(report.left_out, Contains(HasSubstr("2 ranks")));
  EXPECT_THAT(conclusion(report), ::testing::StartsWith("No difference in what was compared"));
}

TEST_F(LeftOut, FixedPointSumsOfATiedTable) {
  train::Config config = of_text();
  config.precision.accumulate = accum::Accumulation::fixed;
  const Report report = verify_config(config);
  EXPECT_TRUE(report.equal) << why(report);
  EXPECT_THAT(report.left_out, Contains(HasSubstr("to the unit of transformer.wte.weight")));
  const auto row =
      std::ranges::find(report.splits, "fixed-point sums, to the unit", &SplitResult::name);
  ASSERT_NE(row, report.splits.end());
  EXPECT_NE(row->parameter, "transformer.wte.weight") << "which was not compared";
}

TEST_F(LeftOut, FixedPointSumsOfOneMicroBatchAreCompared) {
  train::Config config = of_text();
  config.precision.accumulate = accum::Accumulation::fixed;
  config.batch.micro = config.batch.samples;
  const Report report = verify_config(config);
  EXPECT_TRUE(report.equal) << why(report);
  EXPECT_TRUE(compares(report, "fixed-point sums, to the unit"));
}

TEST_F(LeftOut, SplitsThatBatchNormalisationCannotRun) {
  train::Config config = of_torchscript(
      "  assert x.size(0) > 1 or not self.training, 'Expected more than 1 value per channel'\n");
  config.batch.samples = 8;
  const Report report = verify_config(config);
  EXPECT_TRUE(report.equal) << why(report);
  EXPECT_FALSE(report.complete);
  EXPECT_THAT(report.left_out, Contains(HasSubstr("micro-batches of 1: ")));
}

TEST_F(LeftOut, Fp64ThatAModelDoesNotRunIn) {
  const train::Config config = of_torchscript("  x = torch.matmul(x, torch.eye(8, dtype=6))\n");
  const Report report = verify_config(config);
  EXPECT_TRUE(report.equal) << why(report);
  EXPECT_THAT(report.left_out, Contains(HasSubstr("in fp64: this model does not run in it")));
}

TEST_F(LeftOut, StepsThatRoundMoments) {
  train::Config config = of_text();
  config.optim.state = optim::StatePrecision::bf16;
  const Report report = verify_config(config);
  EXPECT_TRUE(report.equal) << why(report);
  EXPECT_FALSE(report.complete);
  EXPECT_THAT(report.left_out, Contains(HasSubstr("optim.state = \"bf16\"")));
}

/// Prompts fill the context, so that no label of them counts.
TEST_F(LeftOut, NothingWhereTheFirstSamplesDoNotCount) {
  std::ofstream lines(folder_ / "data.jsonl");
  for (int i = 0; i < 10; ++i)
    lines
        << (i < 7
                ? R"({"input_ids": [1, 2, 3, 4], "labels": [-100, -100, -100, -100], "weight": 1})"
                : R"({"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]})")
        << "\n";
  lines.close();
  train::Config config = of_text();
  config.data.train = {(folder_ / "data.jsonl").string()};
  config.data.order = batch::Order::sequential;
  config.model.vocab = 256;
  const train::Workload work = train::open_workload(config);
  const ConfigSubject subject(work);
  EXPECT_EQ(subject.counting({0, 10}, 4), (batch::Range{6, 10}));
  EXPECT_EQ(subject.counting({0, 10}, 2), (batch::Range{7, 9}));
  EXPECT_EQ(subject.counting({0, 7}, 4), (batch::Range{0, 4})) << "none counts";
  EXPECT_EQ(subject.counting({7, 10}, 40), (batch::Range{7, 10}));
}

TEST_F(LeftOut, StepsInFp64HaveAKindOfTheirOwn) {
  train::Config config = of_text();
  config.precision.compute = models::Compute::bf16;
  const Report report = verify_config(config);
  const auto relative = [&](const std::string& kind) {
    const auto found = std::ranges::find(report.smallest_fault, kind, &SmallestFault::kind);
    return found == report.smallest_fault.end() ? -1 : found->relative;
  };
  EXPECT_GT(relative("the movement of a parameter by steps scaled"), 1e-4) << "bf16's own";
  EXPECT_LT(relative("the movement of a parameter by steps scaled, in fp64"), 1e-6);
  EXPECT_THAT(report.steps->splits, HasSubstr("in fp64"));
}

/// A frozen parameter that changes is found, also next to a batch normalisation.
TEST_F(LeftOut, AFrozenParameterThatMovesIsNamed) {
  train::Workload work = train::open_workload(of_text());
  const at::Tensor frozen = work.model->parameters().back().tensor;
  at::Tensor(frozen).requires_grad_(false);
  const auto moves = [frozen](testing::Segments& segments) {
    segments.front().forward = [frozen, sound = segments.front().forward](
                                   const models::Activations& x, const batch::MicroBatch& micro,
                                   const ForwardContext& context) {
      const at::NoGradGuard no_grad_for_this;
      if (!context.operations) at::Tensor(frozen).add_(1e-7);
      const at::AutoGradMode with_grad(true);
      return sound(x, micro, context);
    };
  };
  work.model = std::make_unique<ChangedModel>(std::move(work.model), ChangedModel::Fault{moves});
  const Report report = verify_workload(std::move(work));
  EXPECT_FALSE(report.equal);
  EXPECT_THAT(report.evidence, Contains(HasSubstr("is not trained, and moved"))) << why(report);
  EXPECT_THAT(all_causes(report), Contains(Cause::unknown));
}

TEST_F(LeftOut, AnEpochOfMoreThanAMillionDrawsIsLookedAtInPart) {
  train::Workload work = train::open_workload(of_text());
  class Many final : public data::Source {
   public:
    explicit Many(std::shared_ptr<const data::Source> of) : of_(std::move(of)) {}
    std::int64_t size() const override { return 1'200'000; }
    std::int64_t vocab() const override { return of_->vocab(); }
    std::int64_t tokens(std::int64_t) const override { return of_->tokens(0); }
    std::optional<std::int64_t> uniform_tokens() const override { return of_->uniform_tokens(); }
    std::string fingerprint() const override { return of_->fingerprint(); }
    batch::MicroBatch fetch(std::span<const std::int64_t>) const override { return {}; }

   private:
    std::shared_ptr<const data::Source> of_;
  };
  work.data.train = std::make_shared<Many>(work.data.train);
  const DataCheck check = check_draws(work);
  EXPECT_THAT(check.faults, IsEmpty());
  EXPECT_THAT(check.left_out, Contains(HasSubstr("first 1000000 of 1200000")));
}

}  // namespace
}  // namespace accrue::proof
