// Remarks that an accumulator makes once about its first window.
#include <gmock/gmock.h>

#include "accrue/accum/accumulator.h"
#include "accum/problem.h"
#include "accum/taken.h"

namespace accrue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kTake;
using testing::make_problem;
using testing::Problem;
using testing::usage_message;
using Ids = std::vector<std::int64_t>;

/// The remarks on two windows of two micro-batches each.
std::vector<std::string> told_of(const NamedParameters& parameters,
                                 const std::function<Loss(const Ids&)>& loss,
                                 const std::vector<Ids>& micros = {{0, 1, 2}, {3, 4, 5}}) {
  std::vector<std::string> told;
  Accumulator accumulator(parameters, {.on_event = [&](const Event& event) {
                            told.push_back(event.name + ": " + event.reason);
                          }});
  for (int window = 0; window < 2; ++window) {
    for (const Ids& micro : micros) accumulator.backward(loss(micro), {}, micro);
    accumulator.step(kTake);
  }
  return told;
}

TEST(WindowRemarks, NothingIsSaidOfAWindowAsItShouldBe) {
  const Problem problem = make_problem(3, at::kDouble);
  EXPECT_THAT(told_of(problem.parameters, [&](const Ids& ids) { return problem.loss(ids); }),
              IsEmpty());
}

TEST(WindowRemarks, ParametersThatNoLossReachesAreNamedOnce) {
  Problem problem = make_problem(3, at::kDouble);
  NamedParameters more = problem.parameters;
  for (const char* name : {"a", "b", "c", "d", "e"})
    more.push_back({name, at::ones({2}, at::kDouble).requires_grad_(true)});
  EXPECT_THAT(told_of(more, [&](const Ids& ids) { return problem.loss(ids); }),
              ElementsAre(HasSubstr("unused: no loss of the first window depends on 'a', 'b', 'c' "
                                    "and 2 more (of 8 parameters)")));
}

TEST(WindowRemarks, LossesOfWeightOneOverSeveralSamplesLookLikeMeans) {
  const Problem problem = make_problem(3, at::kDouble);
  const auto mean = [&](const Ids& ids) {
    const Loss loss = problem.loss(ids);
    return Loss{loss.sum / loss.weight, 1};
  };
  EXPECT_THAT(told_of(problem.parameters, mean),
              ElementsAre(HasSubstr("loss_weight: each of the first window's 2 micro-batches")));
  EXPECT_THAT(told_of(problem.parameters, mean, {{0, 1, 2}}), IsEmpty()) << "it is the batch's";
  EXPECT_THAT(told_of(problem.parameters, mean, {{0}, {1}}), IsEmpty()) << "1 may be the count";
}

TEST(WindowRemarks, ASampleThatComesTwiceIsNamed) {
  const Problem problem = make_problem(3, at::kDouble);
  EXPECT_THAT(told_of(problem.parameters, [&](const Ids& ids) { return problem.loss(ids); },
                      {{0, 1, 2}, {2, 3}}),
              ElementsAre(HasSubstr("repeated_samples: sample 2 is in the first window twice")));
}

TEST(WindowRemarks, ParametersOnTwoDevicesAreRefused) {
  const NamedParameters parameters{
      {"near", at::ones({2}).requires_grad_(true)},
      {"far", at::ones({2}, at::TensorOptions().device(at::kMeta)).requires_grad_(true)}};
  EXPECT_THAT(usage_message([&] { Accumulator accumulator(parameters); }),
              HasSubstr("expected parameters on one device, received 'near' on cpu and 'far' on "
                        "meta"));
}

}  // namespace
}  // namespace accrue
