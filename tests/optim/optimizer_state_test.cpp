#include <gmock/gmock.h>

#include "accrue/optim/optimizer.h"
#include "windows.h"

namespace accrue::optim {
namespace {

using testing::groups_of;
using ::testing::HasSubstr;
using testing::make_parameters;
using testing::usage_message;
using testing::Windows;

/// As in a checkpoint: separate tensors, in a different order.
NamedParameters saved(const Optimizer& optimizer) {
  NamedParameters copies;
  for (const auto& [name, tensor] : optimizer.state()) copies.push_back({name, tensor.clone()});
  std::reverse(copies.begin(), copies.end());
  return copies;
}

std::vector<std::string> names_of(const NamedParameters& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

TEST(OptimizerStateTest, Names) {
  const NamedParameters parameters{{"w", at::ones({2, 3}).requires_grad_(true)},
                                   {"b", at::ones({3}).requires_grad_(true)}};
  const auto groups = groups_of(parameters, 0);
  const auto adam = make_adam(parameters, groups, {});
  EXPECT_THAT(names_of(adam->state()), ::testing::ElementsAre("step", "exp_avg.w", "exp_avg.b",
                                                              "exp_avg_sq.w", "exp_avg_sq.b"));
  EXPECT_EQ(adam->state_bytes(), 2 * 9 * 4);
  EXPECT_THAT(names_of(make_sgd(parameters, groups, {})->state()),
              ::testing::ElementsAre("step", "momentum.w", "momentum.b"));
  EXPECT_THAT(names_of(make_sgd(parameters, groups, {.momentum = 0})->state()),
              ::testing::ElementsAre("step"));
  EXPECT_THAT(
      names_of(make_rmsprop(parameters, groups, {.momentum = 0.9})->state()),
      ::testing::ElementsAre("step", "square_avg.w", "square_avg.b", "momentum.w", "momentum.b"));
}

TEST(OptimizerStateTest, ContinuesToTheBit) {
  const auto make = [](const NamedParameters& p) { return make_adam(p, groups_of(p, 0.1), {}); };
  const NamedParameters whole = make_parameters(at::kFloat);
  Windows whole_windows(whole);
  const auto uninterrupted = make(whole);
  NamedParameters resumed = make_parameters(at::kFloat);
  NamedParameters checkpoint;
  for (std::int64_t step = 0; step < 6; ++step) {
    if (step == 3) {
      checkpoint = saved(*uninterrupted);
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < whole.size(); ++i) resumed[i].tensor.copy_(whole[i].tensor);
    }
    uninterrupted->step(whole_windows.mean(step), 0.01);
  }
  Windows resumed_windows(resumed);
  const auto continued = make(resumed);
  continued->load_state(checkpoint);
  for (std::int64_t step = 3; step < 6; ++step) continued->step(resumed_windows.mean(step), 0.01);
  for (std::size_t i = 0; i < whole.size(); ++i)
    EXPECT_TRUE(at::equal(resumed[i].tensor, whole[i].tensor)) << whole[i].name;

  // The control: without the state the continuation differs.
  NamedParameters forgotten = make_parameters(at::kFloat);
  Windows forgotten_windows(forgotten);
  const auto restarted = make(forgotten);
  for (std::int64_t step = 0; step < 3; ++step) restarted->step(forgotten_windows.mean(step), 0.01);
  const auto fresh = make(forgotten);
  for (std::int64_t step = 3; step < 6; ++step) fresh->step(forgotten_windows.mean(step), 0.01);
  EXPECT_FALSE(at::equal(forgotten[0].tensor, whole[0].tensor));
}

TEST(OptimizerStateTest, NamesTheFirstTensorThatDoesNotFitAndChangesNothing) {
  const NamedParameters parameters = make_parameters(at::kFloat);
  Windows windows(parameters);
  const auto optimizer = make_adam(parameters, groups_of(parameters, 0), {});
  optimizer->step(windows.mean(0), 0.01);
  const NamedParameters before = saved(*optimizer);

  const auto with = [&](const std::string& name, const at::Tensor& tensor) {
    NamedParameters state = before;
    for (NamedParameter& entry : state) entry.tensor = at::ones_like(entry.tensor);
    const auto found = std::find_if(state.begin(), state.end(),
                                    [&](const auto& entry) { return entry.name == name; });
    if (found == state.end())
      state.push_back({name, tensor});
    else if (tensor.defined())
      found->tensor = tensor;
    else
      state.erase(found);
    return usage_message([&] { optimizer->load_state(state); });
  };
  EXPECT_THAT(with("exp_avg.bias", {}), HasSubstr("expected the tensor exp_avg.bias"));
  EXPECT_THAT(with("step", {}), HasSubstr("expected the tensor step"));
  EXPECT_THAT(with("momentum.bias", at::ones({37})), HasSubstr("received momentum.bias"));
  EXPECT_THAT(with("exp_avg_sq.matrix", at::ones({9, 7})),
              HasSubstr("exp_avg_sq.matrix as Float [7, 9], received Float [9, 7]"));
  EXPECT_THAT(with("exp_avg.matrix", at::ones({7, 9}, at::kDouble)),
              HasSubstr("received Double [7, 9]"));
  EXPECT_THAT(with("step", at::scalar_tensor(-1, at::kLong)), HasSubstr("received -1"));
  NamedParameters twice = before;
  twice.push_back(before[0]);
  EXPECT_THAT(usage_message([&] { optimizer->load_state(twice); }), HasSubstr("twice"));

  const NamedParameters after = saved(*optimizer);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::equal(after[i].tensor, before[i].tensor)) << before[i].name;
}

}  // namespace
}  // namespace accrue::optim
