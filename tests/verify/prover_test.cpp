// The search for a cause, with a model whose gradients are known: without enough memory the
// difference remains as it is, and fits of many parts are made.
#include "verify/prover.h"

#include <gmock/gmock.h>

#include "planted_subject.h"
#include "verify/added_parts.h"

namespace accrue::proof {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::PlantedSubject;

constexpr batch::Range all_samples{0, 40};

class Proving : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(5); }

  /// Compares with passes of 10 samples, as if no more fitted.
  static Prover in_passes(PlantedSubject& subject) {
    const Parts passes = even_split(all_samples, 10).parts;
    Prover few(subject, {0, 10}, 2);
    return {subject, passes, subject.in_passes(passes, {}), few.noise()};
  }
  static Diagnosis explained(PlantedSubject& subject, std::int64_t micro) {
    Prover prover(subject, all_samples, 2);
    Findings findings(subject.parameters());
    prover.check(even_split(all_samples, micro), findings);
    return prover.explain();
  }
  static at::Tensor doubled_third(const at::Tensor& gradient, std::size_t part) {
    return part == 3 ? gradient * 2 : gradient;
  }
};

TEST_F(Proving, APassOverMoreThanFitsIsNeverMade) {
  PlantedSubject subject(all_samples.end);
  subject.most_in_pass = 10;
  subject.fault = doubled_third;
  Prover prover = in_passes(subject);
  Findings findings(subject.parameters());
  EXPECT_FALSE(prover.check(even_split(all_samples, 4), findings).equal);
  const Diagnosis found = prover.explain();
  EXPECT_EQ(to_string(found.cause), "weighting") << ::testing::PrintToString(found.evidence);
  EXPECT_GT(subject.evaluations, 0) << "in several passes";
  EXPECT_THAT(prover.left_out(), IsEmpty());
}

TEST_F(Proving, SumsMayLoseWhatTheirFormatLoses) {
  PlantedSubject subject(all_samples.end);
  AddedParts parts(4);
  for (const batch::Range part : even_split(all_samples, 10).parts)
    parts.add(subject.one_pass(part, {}));
  const auto lost = [&](double roundoff) {
    return parts.explain(subject.parameters(), parts.total(), roundoff).sum_rounding;
  };
  EXPECT_GT(lost(0x1p-8), 0x1p-8);
  EXPECT_DOUBLE_EQ(lost(0x1p-16), 0x1p-8 * lost(0x1p-8)) << "compensated ones lose less";
  EXPECT_EQ(lost(0), 0);
}

TEST_F(Proving, ASearchThatRunsOutOfMemoryKeepsTheDifference) {
  PlantedSubject subject(all_samples.end);
  subject.fault = doubled_third;
  subject.fp64_runs_out = true;
  Prover prover = in_passes(subject);
  Findings findings(subject.parameters());
  EXPECT_FALSE(prover.check(even_split(all_samples, 4), findings).equal);
  subject.most_in_pass = 3;  // from now on nothing fits
  const Diagnosis found = prover.explain();
  EXPECT_EQ(to_string(found.cause), "unknown") << ::testing::PrintToString(found.evidence);
  EXPECT_EQ(found.place, Place::not_searched);
  EXPECT_THAT(prover.left_out(), Contains(HasSubstr("fp64")));
  EXPECT_THAT(prover.left_out(), Contains(HasSubstr("evaluation mode")));
  EXPECT_THAT(prover.left_out(), Contains(HasSubstr("fits of the parts")));
  EXPECT_THAT(found.ruled_out, Not(Contains(HasSubstr("weighting"))));
}

TEST_F(Proving, ASoundSumIsEqual) {
  PlantedSubject subject(all_samples.end);
  EXPECT_EQ(explained(subject, 1).cause, Cause::none);
}

TEST_F(Proving, OneOfManyPartsThatIsLostIsNamed) {
  PlantedSubject subject(all_samples.end);
  subject.fault = [](const at::Tensor& gradient, std::size_t part) {
    return part == 17 ? gradient * 0 : gradient;
  };
  for (const std::int64_t elements : {1000, 5000}) {  // directly, and as a sketch
    PlantedSubject one(all_samples.end, elements);
    one.fault = subject.fault;
    const Diagnosis found = explained(one, 1);
    EXPECT_EQ(to_string(found.cause), "weighting") << ::testing::PrintToString(found.evidence);
  }
  subject.fault = [](const at::Tensor& gradient, std::size_t part) {
    return part < 30 ? gradient * 0 : gradient;
  };
  EXPECT_EQ(to_string(explained(subject, 1).cause), "zeroed-mid-window");
}

TEST_F(Proving, WhatNoFitExplainsIsNotCalledRuledOutWhereNoneWasMade) {
  PlantedSubject subject(all_samples.end, 50);  // too few elements for 40 parts
  subject.fault = doubled_third;
  const Diagnosis found = explained(subject, 1);
  EXPECT_EQ(to_string(found.cause), "unknown") << ::testing::PrintToString(found.evidence);
  EXPECT_THAT(found.ruled_out, Not(Contains(::testing::StartsWith("weighting"))));
  EXPECT_THAT(found.ruled_out, Contains(::testing::StartsWith("batch-coupled-loss")));
}

/// fp64 only runs the first samples: a fault that is not in these is not called rounding.
TEST_F(Proving, AFaultOfLaterSamplesIsNotCalledRounding) {
  PlantedSubject subject(all_samples.end);
  subject.fault = [](const at::Tensor& gradient, std::size_t part) {
    return part == 3 ? gradient * at::rand_like(gradient) : gradient;
  };
  const Diagnosis found = explained(subject, 10);
  EXPECT_NE(to_string(found.cause), "precision") << ::testing::PrintToString(found.evidence);
}

TEST_F(Proving, ABf16SumIsPrecisionAndOneThatLosesAPartIsNot) {
  PlantedSubject subject(all_samples.end);
  subject.sums_in = at::kBFloat16;
  EXPECT_EQ(to_string(explained(subject, 1).cause), "precision");
  subject.fault = [](const at::Tensor& gradient, std::size_t part) {
    return part == 17 ? gradient * 0 : gradient;
  };
  const Diagnosis found = explained(subject, 1);
  EXPECT_EQ(to_string(found.cause), "weighting") << ::testing::PrintToString(found.evidence);
}

}  // namespace
}  // namespace accrue::proof
