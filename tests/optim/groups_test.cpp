#include "optim/groups.h"

#include <gmock/gmock.h>

#include "windows.h"

namespace accrue::optim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::usage_message;

at::Tensor trained(at::IntArrayRef sizes) { return at::ones(sizes).requires_grad_(true); }

TEST(GroupRateTest, IsItsFactorsPartOrFallsToTheFloor) {
  EXPECT_EQ(group_rate(0.5, 0.3, std::nullopt), 0.15);
  const RateFall half_way{.peak = 1, .floor = 0.1, .left = 0.5};
  EXPECT_DOUBLE_EQ(group_rate(0.5, 0.55, half_way), 0.3);  // (0.5 + 0.1) / 2
  EXPECT_DOUBLE_EQ(group_rate(3, 0.55, half_way), 1.55);
  EXPECT_EQ(group_rate(1, 0.55, half_way), 0.55) << "the schedule's own, unrounded";
}

/// For a loss p c a step moves p by the group's rate times c, with every optimizer.
TEST(GroupRateTest, IsWhatAStepMovesBy) {
  for (const bool folds : {false, true}) {
    const at::Tensor w = trained({2, 2});
    const NamedParameters parameters{{"w", w}};
    const std::vector<ParameterGroup> groups{{.names = {"w"}, .lr_factor = 0.5}};
    const auto optimizer = folds ? make_folded_sgd(parameters, groups, {.momentum = 0.5})
                                 : make_sgd(parameters, groups, {.momentum = 0.5});
    auto buffer =
        folds ? std::make_shared<accum::GradientBuffer>(
                    parameters, accum::FoldInto{.target = optimizer->fold_target()})
              : std::make_shared<accum::GradientBuffer>(parameters, accum::Accumulation::fp32);
    accum::Window window(buffer);
    const auto step_with = [&](const std::optional<RateFall>& fall) {
      const at::Tensor before = w.detach().clone();
      window.open(0, 1, 1);
      window.begin({.index = 0, .weight = 1});
      const at::Tensor loss = (4 * w).sum();
      loss.backward();
      window.commit(loss.item<double>(), 1);
      optimizer->set_fall(fall);
      optimizer->step(std::move(window.close()).value(), 0.55);
      return (before - w.detach())[0][0].item<double>();
    };
    EXPECT_NEAR(step_with(RateFall{.peak = 1, .floor = 0.1, .left = 0.5}), 0.3 * 4, 1e-6) << folds;
    EXPECT_NEAR(step_with(std::nullopt), 0.275 * 6, 1e-6) << folds;  // momentum: 4 + 0.5 * 4
  }
}

TEST(DefaultGroupsTest, DecayMatricesOnly) {
  const NamedParameters parameters{{"embedding", trained({4, 3})},
                                   {"norm", trained({3})},
                                   {"filter", trained({2, 2, 3})},
                                   {"frozen", at::ones({3, 3})}};
  const auto groups = default_groups(parameters, 0.1, false);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_THAT(groups[0].names, ElementsAre("embedding", "filter"));
  EXPECT_EQ(groups[0].weight_decay, 0.1);
  EXPECT_THAT(groups[1].names, ElementsAre("norm"));
  EXPECT_EQ(groups[1].weight_decay, 0);
}

TEST(DefaultGroupsTest, DecayAllIsOneGroup) {
  const auto groups = default_groups({{"w", trained({2, 2})}, {"b", trained({2})}}, 0.1, true);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_THAT(groups[0].names, ElementsAre("w", "b"));
}

TEST(DefaultGroupsTest, TiedParametersStandOnceAndResolve) {
  const at::Tensor shared = trained({2, 2});
  const NamedParameters parameters{{"wte", shared}, {"b", trained({2})}, {"head", shared}};
  const auto groups = default_groups(parameters, 0.1, false);
  EXPECT_THAT(groups[0].names, ElementsAre("wte"));
  EXPECT_EQ(resolve_groups(parameters, groups).size(), 2U);
  // Both names stand for the same parameter.
  const auto resolved = resolve_groups(parameters, {{.names = {"head", "b"}, .lr_factor = 2}});
  EXPECT_EQ(resolved[0].parameter.name, "wte");
  EXPECT_EQ(resolved[0].lr_factor, 2);
}

TEST(ResolveGroupsTest, NamesWhatIsWrong) {
  const at::Tensor shared = trained({2, 2});
  const NamedParameters parameters{
      {"w", shared}, {"tied", shared}, {"b", trained({2})}, {"frozen", at::ones({2})}};
  struct Case {
    std::vector<ParameterGroup> groups;
    const char* expected;
  };
  for (const Case& c : {
           Case{{{.names = {"w", "b", "c"}}}, "received c, which is none"},
           Case{{{.names = {"w", "b", "frozen"}}}, "received frozen, which is frozen"},
           Case{{{.names = {"w"}}}, "received b in none"},
           Case{{{.names = {"w", "b"}}, {.names = {"b"}}}, "received b twice"},
           Case{{{.names = {"w", "tied", "b"}}}, "received tied twice"},
           Case{{{.names = {"w", "b"}, .weight_decay = -1}}, "weight decay"},
           Case{{{.names = {"w", "b"}, .lr_factor = NAN}}, "learning rate factor"},
       })
    EXPECT_THAT(usage_message([&] { resolve_groups(parameters, c.groups); }),
                AllOf(HasSubstr("group parameters"), HasSubstr(c.expected)));
}

TEST(ResolveGroupsTest, RefusesEqualNamesNothingToTrainAndLowPrecision) {
  EXPECT_THAT(usage_message([] {
                resolve_groups({{"w", trained({2})}, {"w", trained({2})}}, {{.names = {"w"}}});
              }),
              HasSubstr("two of the name w"));
  EXPECT_THAT(usage_message([] {
                resolve_groups({{"w", at::ones({2})}}, {});
              }),
              HasSubstr("all frozen"));
  EXPECT_THAT(usage_message([] {
                const at::Tensor half = at::ones({2}, at::kBFloat16).requires_grad_(true);
                resolve_groups({{"w", half}}, {{.names = {"w"}}});
              }),
              AllOf(HasSubstr("received w in BFloat16"), HasSubstr("fp32 master weights")));
}

}  // namespace
}  // namespace accrue::optim
