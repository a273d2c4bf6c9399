#include "verify/config/verdict.h"

#include <gmock/gmock.h>

#include <cmath>

#include "verify/power.h"

namespace accrue::proof {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const Blame bad_draws{.place = Place::data, .evidence = {"sample 3 is drawn twice"}};

TEST(Verdict, AFaultBesidesAKnownCauseStandsBesideIt) {
  Report report{.equal = false, .max_relative_error = 0.2, .bound = 1e-6};
  take(report, {.cause = Cause::batchnorm, .evidence = {"batch normalisation in bn"}});
  blame(report, bad_draws);
  EXPECT_EQ(all_causes(report), (std::vector{Cause::batchnorm, Cause::unknown}));
  EXPECT_EQ(report.max_relative_error, 0.2);
  EXPECT_THAT(conclusion(report),
              ::testing::AllOf(HasSubstr("batchnorm, "), HasSubstr("which samples or labels")));
  EXPECT_THAT(advice(report), HasSubstr("model.batchnorm"));
}

TEST(Verdict, APlaceIsThatOfAnUnknownCause) {
  Report report{.equal = false, .max_relative_error = 0.2, .bound = 1e-6};
  take(report, {.cause = Cause::normalization, .place = Place::window});
  blame(report, bad_draws);
  EXPECT_EQ(report.place, Place::data);
  EXPECT_THAT(conclusion(report), HasSubstr("which samples or labels"));
}

TEST(Verdict, TheFirstFaultThatIsFoundKeepsItsPlace) {
  Report report;
  blame(report, {.cause = Cause::precision, .place = Place::sums, .error = 0.1, .bound = 1e-6});
  blame(report, {.place = Place::steps, .error = 0.5, .bound = 1e-3});
  blame(report, bad_draws);
  EXPECT_EQ(report.cause, Cause::precision);
  EXPECT_THAT(report.besides, ElementsAre(Cause::unknown));
  EXPECT_EQ(report.place, Place::steps);
  EXPECT_EQ(report.max_relative_error, 0.1);
}

TEST(Verdict, EachPlaceHasASentenceAndAnAdviceOfItsOwn) {
  std::vector<std::string> sentences;
  for (const Place place : {Place::window, Place::operations, Place::sums, Place::steps,
                            Place::frozen, Place::data, Place::not_finite, Place::not_searched}) {
    Report report{.equal = false};
    blame(report, {.place = place, .evidence = {"seen"}});
    report.equal = false;
    EXPECT_THAT(sentences, Not(Contains(conclusion(report))));
    sentences.push_back(conclusion(report));
    EXPECT_EQ(advice(report).find("memory.recompute") != std::string::npos, place == Place::window);
  }
}

TEST(Verdict, AgreementSpeaksAgainstTheOtherCauses) {
  Report report;
  blame(report, {.place = Place::steps, .error = 0.5, .bound = 1e-3});
  rule_out_by_agreement(report, 1e-5, true);
  for (const char* cause : {"nondeterminism", "weighting", "dropout", "batchnorm"})
    EXPECT_THAT(report.ruled_out, Contains(StartsWith(cause)));
  EXPECT_THAT(report.ruled_out, Not(Contains(StartsWith("unknown"))));
}

Report with_extent(std::int64_t taken, std::int64_t fitting, bool has_budget) {
  Report report;
  note_extent(report,
              {.samples = 64, .taken = taken, .fitting = fitting, .has_budget = has_budget});
  return report;
}

TEST(Verdict, SaysOnHowManySamplesAndWhatHasTheRest) {
  EXPECT_THAT(with_extent(64, 64, false).left_out, IsEmpty());
  EXPECT_THAT(conclusion(with_extent(64, 64, false)), Not(HasSubstr("first")));
  const Report planned = with_extent(4, 64, false);
  EXPECT_THAT(planned.left_out, ElementsAre(HasSubstr("accrue verify --thorough")));
  EXPECT_THAT(conclusion(planned), HasSubstr("splits, orders and steps on the first 4 of its 64"));
  // Without enough memory no option helps.
  EXPECT_THAT(
      with_extent(44, 44, true).left_out,
      ElementsAre(::testing::AllOf(HasSubstr("memory.budget"), Not(HasSubstr("--thorough")))));
  EXPECT_THAT(
      with_extent(44, 44, false).left_out,
      ElementsAre(::testing::AllOf(HasSubstr("free memory"), Not(HasSubstr("--thorough")))));
  EXPECT_THAT(
      with_extent(4, 44, true).left_out,
      ElementsAre(::testing::AllOf(HasSubstr("memory.budget"), HasSubstr("--thorough takes 44"))));
}

TEST(Verdict, StepsThatRoundingMovesAsFarProveNothing) {
  Report report{.steps = StepsResult{.equal = true, .joint_bound = 0.5, .conclusive = false}};
  judge_bounds(report, {.compute = "fp32", .joint = 1e-6, .in_double = true});
  EXPECT_FALSE(report.conclusive);
  EXPECT_THAT(report.left_out, ElementsAre(HasSubstr("optim.lr")));
  EXPECT_THAT(conclusion(report), StartsWith("Not conclusive"));
}

/// One sentence: which parameter, how much, and what to change.
TEST(Verdict, WhatProvesNothingNamesTheParameterAndWhatToChange) {
  Report report{
      .steps = StepsResult{
          .equal = true, .joint_bound = 0.5, .loosest = {"w", 0.75}, .conclusive = false}};
  judge_bounds(
      report,
      {.compute = "bf16", .joint = 0.25, .in_double = false, .loosest = {"norm.bias", 0.875}});
  EXPECT_EQ(conclusion(report),
            "Not conclusive: no difference beyond the bound, but in bf16 rounding may change 0.25 "
            "of the gradient, most in norm.bias (0.875 of its own), and rounding may move the "
            "parameters by 0.5 of their "
            "movement by optimizer steps, most w (by 0.75); try precision.compute = \"fp32\" for "
            "this proof (largest relative error 0, bound 0).");
}

TEST(Verdict, MemoryThatFp64LackedIsWhatToChange) {
  Report report{.left_out = {"the comparison in fp64: 3 MiB are missing; a larger memory.budget "
                             "has it"},
                .steps = StepsResult{.equal = true, .joint_bound = 0.5, .conclusive = false}};
  judge_bounds(report, {.compute = "fp32", .joint = 1e-6, .in_double = false});
  EXPECT_THAT(conclusion(report), HasSubstr("try a larger memory.budget, so that fp64 decides"));
}

TEST(Verdict, AGradientThatMayBeScaledUnseenIsStatedWithItsPart) {
  Report report{.smallest_fault = scaled_faults(0.02, 1e-4)};
  judge_bounds(report, {.compute = "fp32", .joint = 1e-3, .in_double = false});
  EXPECT_THAT(report.inconclusive, HasSubstr("hide that a gradient is scaled by 2%; try another "
                                             "run.seed"));
  EXPECT_THAT(conclusion(report), HasSubstr(report.inconclusive));
}

TEST(LoosestBound, IsOfTheParameterWhoseBoundIsLargestBesideItsGradient) {
  const NamedParameters parameters{
      {"a", at::ones({4})}, {"b", at::ones({4})}, {"unreached", at::ones({4})}};
  const Gradients reference{.sums = {at::full({4}, 2.0), at::full({4}, 1.0), at::zeros({4})},
                            .weight = 1};
  Comparison comparison = compare(parameters, reference, reference, {});
  comparison.parameters[0].norm.bound = 1;  // of a norm of 4
  comparison.parameters[1].norm.bound = 1;  // of a norm of 2
  const LoosestBound loosest = loosest_bound(parameters, comparison);
  EXPECT_EQ(loosest.parameter, "b");
  EXPECT_DOUBLE_EQ(loosest.relative, 0.5);
}

TEST(Verdict, BoundsThatAllowMuchAreConclusiveByFp64Alone) {
  for (const bool in_double : {false, true}) {
    Report report{.smallest_fault = scaled_faults(0.02, 1e-4)};
    judge_bounds(report, {.compute = "bf16", .joint = 1e-3, .in_double = in_double});
    EXPECT_EQ(report.conclusive, in_double);
  }
}

TEST(Power, AChainShowsWhatItsWeakestLinkDoes) {
  Power power{.window = scaled_faults(1e-2, 1e-2),
              .operations = scaled_faults(1e-6, 1e-6),
              .slots = scaled_faults(1e-5, 1e-6)};
  EXPECT_EQ(smallest_faults_of(power).front().relative, 1e-2) << "a link is missing";
  power.sums = scaled_faults(1e-6, 1e-4);
  EXPECT_EQ(smallest_faults_of(power)[0].relative, 1e-5);
  EXPECT_EQ(smallest_faults_of(power)[1].relative, 1e-4);
  power.window = scaled_faults(1e-7, 1e-7);
  EXPECT_EQ(smallest_faults_of(power)[0].relative, 1e-7);
}

/// What is left out of the parameters whose gradients these are.
std::vector<std::string> left_out_of(const NamedParameters& parameters,
                                     const std::vector<double>& gradients) {
  Gradients reference{.sums = {}, .weight = 1};
  for (std::size_t i = 0; i < gradients.size(); ++i)
    reference.sums.push_back(at::full_like(parameters[i].tensor, gradients[i]));
  return parameters_left_out(parameters, compare(parameters, reference, reference, {}));
}

TEST(LeftOutParameters, FactorsAOfFactorsBThatAreZeroAreOneLine) {
  const NamedParameters parameters{{"q.lora_A.weight", at::ones({2, 4})},
                                   {"q.lora_B.weight", at::zeros({4, 2})},
                                   {"v.lora_A.default.weight", at::ones({2, 4})},
                                   {"v.lora_B.default.weight", at::zeros({4, 2})}};
  EXPECT_THAT(left_out_of(parameters, {0, 1, 0, 1}),
              ElementsAre(::testing::AllOf(HasSubstr("2 lora_A factors"),
                                           HasSubstr("exactly 0 as long as their lora_B is 0"),
                                           Not(HasSubstr("no gradient reaches")))));
}

TEST(LeftOutParameters, AFactorAWithoutGradientBesideAFactorBIsNoNormalCase) {
  const NamedParameters parameters{{"q.lora_A.weight", at::ones({2, 4})},
                                   {"q.lora_B.weight", at::ones({4, 2})},
                                   {"v.lora_A.weight", at::ones({2, 4})}};
  EXPECT_THAT(
      left_out_of(parameters, {0, 1, 0}),
      ElementsAre("no gradient reaches q.lora_A.weight and v.lora_A.weight from these samples"));
}

TEST(LeftOutParameters, AFactorAWithAGradientIsCompared) {
  const NamedParameters parameters{{"q.lora_A.weight", at::ones({2, 4})},
                                   {"q.lora_B.weight", at::zeros({4, 2})}};
  EXPECT_THAT(left_out_of(parameters, {1, 1}), IsEmpty());
}

TEST(Evidence, WhatIsNotFiniteIsNoBoundAndNoError) {
  EXPECT_TRUE((Evidence{.error = 1e-3, .bound = INFINITY}.exceeds()));
  EXPECT_TRUE((Evidence{.error = INFINITY, .bound = INFINITY}.exceeds()));
  EXPECT_TRUE((Evidence{.error = 1e-3, .bound = NAN}.exceeds()));
  EXPECT_TRUE((Evidence{.error = NAN, .bound = 1}.exceeds()));
  EXPECT_TRUE((Evidence{.error = 0, .bound = NAN}.exceeds()));
  EXPECT_FALSE((Evidence{.error = 0, .bound = 0}.exceeds()));
  EXPECT_FALSE((Evidence{.error = 1e-7, .bound = 1e-6}.exceeds()));
}

TEST(CompareClosely, GoesByTheNumberOfTermsAndNotByTheirWeight) {
  const at::Tensor w = at::ones({50}), gradient = at::randn({50});
  const NamedParameters parameters{{"w", w}};
  const auto bound = [&](double weight) {
    const Gradients sum{.sums = {gradient * weight}, .weight = 10 * weight, .terms = 10};
    return compare_closely(parameters, sum, sum).parameters.front().norm.bound;
  };
  EXPECT_NEAR(bound(1e6) / bound(1), 1, 1e-3);
}

}  // namespace
}  // namespace accrue::proof
