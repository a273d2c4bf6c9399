#include "verify/diagnosis.h"

#include <gmock/gmock.h>

#include <cmath>

#include "support/rounding.h"

namespace accrue::proof {
namespace {

Observations differing() {
  return {.split = {.relative_error = 0.1, .ratio = 1e4},
          .repeated = Difference{0, 0},
          .reseeded = Difference{0, 0},
          .weight = 10,
          .weight_of_parts = 10,
          .loss_sum = 3,
          .loss_sum_of_parts = 4,
          .span = Fit{.residual = 0.4},
          .relative_error_in_double = 0.1};
}

TEST(Bound, GrowsWithEachOfItsTermsAndIsZeroWithoutThem) {
  EXPECT_EQ(rounding_bound({}), 0);
  const RoundingTerms all{
      .gradient_norm = 1, .accumulation = 1e-7, .noise = 1e-7, .unit_roundoff = 0x1p-24};
  RoundingTerms more = all;
  more.accumulation = 2e-7;
  EXPECT_GT(rounding_bound(more), rounding_bound(all));
  more = all;
  more.noise = 2e-7;
  EXPECT_GT(rounding_bound(more), rounding_bound(all));
}

TEST(Diagnosis, ADifferenceThatIsNotANumberExceedsEveryBound) {
  EXPECT_TRUE((Difference{.relative_error = NAN, .ratio = NAN}.exceeds()));
  EXPECT_FALSE((Difference{.relative_error = 1e-7, .ratio = 1}.exceeds()));
}

TEST(Diagnosis, NothingIsNamedWithinTheBound) {
  Observations seen = differing();
  seen.split = {.relative_error = 1e-7, .ratio = 0.2};
  EXPECT_EQ(diagnose(seen).cause, Cause::none);
  seen.repeated = Difference{0.1, 50};
  EXPECT_EQ(diagnose(seen).cause, Cause::nondeterminism) << "even where the splits agree";
}

TEST(Diagnosis, WhatNothingExplainsIsCoupled) {
  EXPECT_EQ(diagnose(differing()).cause, Cause::batch_coupled_loss);
}

/// Parts whose gradients add up to the whole's, and training's result for them.
Observations added_up(const SumEvidence& added) {
  Observations seen = differing();
  seen.parts_add_up = true;
  seen.split_name = "2 stages, micro-batches of 4";
  seen.added_up = added;
  return seen;
}

TEST(Diagnosis, ASumMayLoseWhatItsPrecisionMay) {
  const SumEvidence within{.residual = 0.01, .sum_rounding = 0.02, .tolerance = 1e-5};
  EXPECT_EQ(diagnose(added_up(within)).cause, Cause::precision);
  SumEvidence kept = within;
  kept.keeps_sums = true;
  EXPECT_EQ(diagnose(added_up(kept)).cause, Cause::unknown) << "an fp32 sum loses nothing like it";
  const SumEvidence beyond{.residual = 0.81, .sum_rounding = 0.02, .tolerance = 1e-5};
  EXPECT_EQ(diagnose(added_up(beyond)).cause, Cause::unknown) << "no rounding is as large";
}

TEST(Diagnosis, WhatTrainingMadeOfSoundPartsIsFitted) {
  SumEvidence added{.residual = 0.5, .tolerance = 1e-5};
  added.multiple = {.factor = 0.25, .residual = 1e-7, .matches = true};
  EXPECT_EQ(diagnose(added_up(added)).cause, Cause::normalization);
  added.multiple = {};
  added.span = {.residual = 1e-7, .matches = true};
  added.shares = {1, 1, 0};
  const Diagnosis lost = diagnose(added_up(added));
  EXPECT_EQ(lost.cause, Cause::weighting);
  EXPECT_THAT(lost.evidence.back(), ::testing::HasSubstr("1, 1, 0"));
  added.shares = {0, 0, 1};
  EXPECT_EQ(diagnose(added_up(added)).cause, Cause::zeroed_mid_window);
  added.span = {.residual = 0.3};
  const Diagnosis unknown = diagnose(added_up(added));
  EXPECT_EQ(unknown.cause, Cause::unknown);
  EXPECT_THAT(unknown.evidence, ::testing::Contains(::testing::HasSubstr("2 stages")));
  EXPECT_EQ(unknown.place, Place::window);
}

TEST(Diagnosis, AFitGoesBeforeWhatABf16SumMayLose) {
  SumEvidence added{.residual = 0.016, .sum_rounding = 0.1, .tolerance = 1e-5};
  added.span = Fit{.residual = 0.003};
  added.shares = {1, 0.001, 1};
  EXPECT_EQ(diagnose(added_up(added)).cause, Cause::weighting);
  added.span = Fit{.residual = 0.012};
  EXPECT_EQ(diagnose(added_up(added)).cause, Cause::precision) << "it leaves most of it";
  added.span = Fit{.residual = 0.003};
  added.residual_in_bf16 = 1e-4;
  EXPECT_EQ(diagnose(added_up(added)).cause, Cause::precision) << "rounding again gives the same";
}

/// Bounds of coarse sums are wide, so that any fit is within them.
TEST(Diagnosis, AFitThatLeavesMostOfWhatACoarseSumLosesExplainsNothing) {
  SumEvidence added{.residual = 0.048, .sum_rounding = 0.16, .tolerance = 0.05};
  added.multiple = Fit{.factor = 0.96, .residual = 0.04};
  added.span = Fit{.residual = 0.039};
  added.shares = {1, 0.9, 1};
  Observations seen = added_up(added);
  seen.kernels = Difference{0.001, 0.1};
  EXPECT_EQ(diagnose(seen).cause, Cause::precision);
  seen.kernels = std::nullopt;
  EXPECT_EQ(diagnose(seen).place, Place::operations) << "which were not compared by themselves";
  seen.added_up->residual = 0.17;
  EXPECT_EQ(diagnose(seen).cause, Cause::normalization) << "a factor explains most of it";
}

TEST(Diagnosis, AFitMayLeaveWhatPassesRoundOtherwise) {
  SumEvidence added{.residual = 0.05, .keeps_sums = true, .tolerance = 1e-5};
  added.span = Fit{.residual = 0.006};
  added.shares = {1.2, 0.8, 1};
  EXPECT_EQ(diagnose(added_up(added)).cause, Cause::unknown);
  added.pass_rounding = 0.02;
  EXPECT_EQ(diagnose(added_up(added)).cause, Cause::weighting);
  added.residual = 0.01;
  EXPECT_EQ(diagnose(added_up(added)).cause, Cause::unknown) << "it leaves most of it";
}

/// Omitting one of 16 similar micro-batches is nearly a multiple of the rest.
TEST(Diagnosis, ACombinationThatFitsGoesBeforeAMultipleThatNearlyDoes) {
  SumEvidence added{
      .residual = 0.069, .keeps_sums = true, .tolerance = 1e-5, .pass_rounding = 0.05};
  added.multiple = Fit{.factor = 0.94, .residual = 0.032};
  added.span = Fit{.residual = 1e-6};
  added.shares = {1, 1, 0};
  EXPECT_EQ(diagnose(added_up(added)).cause, Cause::weighting);
  added.span = Fit{.residual = 0.03};
  EXPECT_EQ(diagnose(added_up(added)).cause, Cause::normalization) << "it explains no more";
  added.multiple->residual = 1e-6;
  added.span = Fit{.residual = 1e-7};
  EXPECT_EQ(diagnose(added_up(added)).cause, Cause::normalization) << "both are exact";
}

TEST(Diagnosis, BuffersThatExactNormalisationMovesTellNothing) {
  Observations seen = differing();
  seen.buffers_moved = true;
  seen.evaluation = Difference{1e-7, 0.1};
  EXPECT_EQ(diagnose(seen).cause, Cause::batchnorm);
  seen.parts_differ_by_design = true;
  EXPECT_EQ(diagnose(seen).cause, Cause::unknown);
}

TEST(Diagnosis, WhatWasNotFittedIsNotRuledOut) {
  Observations seen = differing();
  const auto speaks_against = [&](const char* cause) {
    return ::testing::Matches(::testing::Contains(::testing::StartsWith(cause)))(
        diagnose(seen).ruled_out);
  };
  EXPECT_TRUE(speaks_against("weighting"));
  seen.span.reset();
  EXPECT_EQ(diagnose(seen).cause, Cause::unknown);
  EXPECT_FALSE(speaks_against("weighting"));
  EXPECT_FALSE(speaks_against("normalization"));
  seen.multiple = Fit{};
  EXPECT_TRUE(speaks_against("normalization"));
  seen.is_complete = false;
  EXPECT_EQ(diagnose(seen).place, Place::not_searched);
}

TEST(Diagnosis, PartsThatDifferByDesignCoupleNothing) {
  Observations seen = differing();
  seen.parts_differ_by_design = true;
  EXPECT_EQ(diagnose(seen).cause, Cause::unknown);
  EXPECT_EQ(diagnose(seen).place, Place::window);
}

TEST(Diagnosis, AKernelIsBlamedBeforeWhatTrainingMakesOfIt) {
  Observations seen = added_up({.residual = 1e-9, .tolerance = 1e-5});
  seen.kernels = Difference{.relative_error = 1e-3, .ratio = 100};
  seen.kernels_parameter = "fc.bias";
  seen.kernels_factor = 1.001;
  const Diagnosis found = diagnose(seen);
  EXPECT_EQ(found.cause, Cause::unknown);
  EXPECT_THAT(::testing::PrintToString(found.evidence),
              ::testing::AllOf(::testing::HasSubstr("fc.bias"), ::testing::HasSubstr("1")));
  EXPECT_THAT(found.ruled_out, ::testing::Contains(::testing::StartsWith("batch-coupled-loss")));
}

TEST(Diagnosis, MasksByPlaceAreDropoutWhereEvaluationAgrees) {
  Observations seen = differing();
  seen.evaluation = Difference{.relative_error = 1e-8, .ratio = 0.1};
  EXPECT_EQ(diagnose(seen).cause, Cause::dropout);
  seen.batch_norms = {"bn"};
  EXPECT_EQ(diagnose(seen).cause, Cause::batchnorm);
}

TEST(Diagnosis, LowPrecisionExplainsNothingThatFp64Keeps) {
  Observations seen = differing();
  seen.low_precision = "BFloat16";
  seen.split.relative_error = 0.05;
  seen.relative_error_in_double.reset();
  seen.loss_sum_of_parts = seen.loss_sum;
  EXPECT_EQ(diagnose(seen).cause, Cause::precision);
  seen.relative_error_in_double = 0.05;
  const Diagnosis found = diagnose(seen);
  EXPECT_EQ(found.cause, Cause::batch_coupled_loss);
  EXPECT_THAT(found.ruled_out, ::testing::Contains(::testing::StartsWith("precision")));
}

TEST(Diagnosis, AnInterventionCountsOnlyWhereTheDifferenceVanishes) {
  Observations seen = differing();
  seen.batch_norms = {"bn1"};
  seen.frozen = Difference{0.09, 9e3};
  EXPECT_EQ(diagnose(seen).cause, Cause::batch_coupled_loss) << "a bystander";
  seen.frozen = Difference{1e-7, 0.1};
  EXPECT_EQ(diagnose(seen).cause, Cause::batchnorm);
}

TEST(Diagnosis, AllCausesOfWhichTheEvidenceTellsAreNamed) {
  Observations seen = differing();
  seen.reseeded = Difference{0.1, 1e4};
  seen.dropouts = {"drop"};
  seen.evaluation = Difference{1e-7, 0.1};
  EXPECT_EQ(diagnose(seen).cause, Cause::dropout);
  EXPECT_TRUE(diagnose(seen).besides.empty());
  seen.buffers_moved = true;
  EXPECT_TRUE(diagnose(seen).besides.empty()) << "without layers by name, the mode told of dropout";
  seen.batch_norms = {"bn1"};
  EXPECT_EQ(diagnose(seen).cause, Cause::dropout);
  EXPECT_EQ(diagnose(seen).besides, std::vector{Cause::batchnorm});
  seen.weight_of_parts = 2 * seen.weight;
  EXPECT_EQ(diagnose(seen).cause, Cause::weighting);
  EXPECT_EQ(diagnose(seen).besides, (std::vector{Cause::dropout, Cause::batchnorm}));
}

TEST(Report, NamesAllCausesInItsConclusion) {
  Report report;
  EXPECT_TRUE(all_causes(report).empty());
  report.equal = false;
  report.cause = Cause::dropout;
  report.besides = {Cause::batchnorm};
  EXPECT_EQ(all_causes(report), (std::vector{Cause::dropout, Cause::batchnorm}));
  EXPECT_THAT(conclusion(report), ::testing::AllOf(::testing::HasSubstr("dropout, "),
                                                   ::testing::HasSubstr("and batchnorm, ")));
}

TEST(Report, SaysWhatToDoAboutEachCause) {
  Report report;
  EXPECT_EQ(advice(report), "");
  report.equal = false;
  for (int cause = 1; cause <= static_cast<int>(Cause::stepped_mid_window); ++cause) {
    report.cause = static_cast<Cause>(cause);
    EXPECT_NE(advice(report), "") << to_string(report.cause);
    EXPECT_EQ(advice(report).find('\n'), std::string::npos);
  }
  report.cause = Cause::dropout;
  report.besides = {Cause::batchnorm};
  EXPECT_THAT(advice(report), ::testing::AllOf(::testing::HasSubstr("masks"),
                                               ::testing::HasSubstr("model.batchnorm")));
}

TEST(Diagnosis, Fp64TellsRoundingFromTheRest) {
  Observations seen = differing();
  seen.relative_error_in_double = 1e-10;
  EXPECT_EQ(diagnose(seen).cause, Cause::precision);
}

TEST(Diagnosis, MovedBuffersAloneAreBatchNormWhereEvaluationAgrees) {
  Observations seen = differing();
  seen.buffers_moved = true;
  EXPECT_EQ(diagnose(seen).cause, Cause::batch_coupled_loss);
  seen.evaluation = Difference{1e-7, 0.1};
  EXPECT_EQ(diagnose(seen).cause, Cause::batchnorm);
}

TEST(Diagnosis, StateThatPassesLeaveIsNoBatchNorm) {
  Observations seen = differing();
  seen.buffers_moved = true;
  seen.evaluation = Difference{1e-7, 0.1};
  seen.parts_add_up = true;  // each with the unchanged buffers
  EXPECT_EQ(diagnose(seen).cause, Cause::carried_state);
  seen.batch_norms = {"bn1"};
  EXPECT_EQ(diagnose(seen).cause, Cause::batchnorm) << "where a layer is known";
  seen.batch_norms.clear();
  seen.kernels = Difference{0.1, 1e4};
  EXPECT_NE(diagnose(seen).cause, Cause::carried_state) << "one pass by itself differs";
}

TEST(Diagnosis, HalfALossThatDoesNotGiveHalfTheGradientIsClipping) {
  Observations seen = differing();
  seen.halved = 0.5;
  EXPECT_EQ(diagnose(seen).cause, Cause::clip_per_micro_batch);
  seen.halved = 1e-5;  // the possible loss by fp16
  EXPECT_EQ(diagnose(seen).cause, Cause::batch_coupled_loss);
}

TEST(DiagnosisOfLoops, WhatWasSeenGoesBeforeWhatFits) {
  LoopObservations seen{.difference = {0.5, 1e5}, .micro_batches = 4, .total_weight = 9};
  seen.multiple = {.factor = 0.5, .residual = 1e-7, .matches = true};
  EXPECT_EQ(diagnose_loop(seen).cause, Cause::normalization);
  seen.zeroed_before = 2;
  EXPECT_EQ(diagnose_loop(seen).cause, Cause::zeroed_mid_window);
  seen.saw_sums = false;
  EXPECT_EQ(diagnose_loop(seen).cause, Cause::normalization) << "its sums are kept elsewhere";
  seen.stepped_before = 1;
  EXPECT_EQ(diagnose_loop(seen).cause, Cause::stepped_mid_window);
}

}  // namespace
}  // namespace accrue::proof
