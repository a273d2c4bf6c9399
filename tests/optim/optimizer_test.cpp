#include "accrue/optim/optimizer.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "support/tolerance.h"
#include "windows.h"

namespace accrue::optim {
namespace {

using testing::groups_of;
using ::testing::HasSubstr;
using testing::kSteps;
using testing::make_parameters;
using testing::usage_message;
using testing::Windows;

/// One element's update in double, written from the formulas of PyTorch's documentation.
struct Element {
  double value;
  double first = 0;   ///< exp_avg, momentum buffer
  double second = 0;  ///< exp_avg_sq, square_avg
};
struct ElementSettings {
  double lr, decay;
  std::int64_t step;
};
using Formula = std::function<void(Element&, double gradient, const ElementSettings&)>;

Formula adam_formula(const AdamOptions& o) {
  return [o](Element& e, double g, const ElementSettings& s) {
    if (o.decoupled_decay)
      e.value -= s.lr * s.decay * e.value;
    else
      g += s.decay * e.value;
    e.first = o.beta1 * e.first + (1 - o.beta1) * g;
    e.second = o.beta2 * e.second + (1 - o.beta2) * g * g;
    const double first = e.first / (1 - std::pow(o.beta1, s.step));
    const double second = e.second / (1 - std::pow(o.beta2, s.step));
    e.value -= s.lr * first / (std::sqrt(second) + o.eps);
  };
}

Formula sgd_formula(const SgdOptions& o) {
  return [o](Element& e, double g, const ElementSettings& s) {
    g += s.decay * e.value;
    e.first = s.step > 1 ? o.momentum * e.first + g : g;
    e.value -= s.lr * (o.momentum == 0 ? g : e.first);
  };
}

Formula rmsprop_formula(const RmsPropOptions& o) {
  return [o](Element& e, double g, const ElementSettings& s) {
    g += s.decay * e.value;
    e.second = o.alpha * e.second + (1 - o.alpha) * g * g;
    e.first = o.momentum * e.first + g / (std::sqrt(e.second) + o.eps);
    e.value -= s.lr * e.first;
  };
}

double lr_at(std::int64_t step) { return 0.01 / static_cast<double>(1 + step % 4); }

/// A second implementation of a whole run, with plain loops over doubles.
class Reference {
 public:
  Reference(const NamedParameters& parameters, const std::vector<ParameterGroup>& groups,
            Formula formula)
      : formula_(std::move(formula)) {
    for (const auto& [name, tensor] : parameters) {
      const at::Tensor values = tensor.detach().to(at::kDouble).contiguous();
      auto& elements = elements_.emplace_back();
      for (std::int64_t i = 0; i < values.numel(); ++i)
        elements.push_back({values.const_data_ptr<double>()[i]});
      for (const ParameterGroup& group : groups)
        if (std::count(group.names.begin(), group.names.end(), name)) settings_.push_back(group);
    }
  }

  void step(const std::vector<at::Tensor>& gradients, double lr) {
    ++steps_;
    for (std::size_t p = 0; p < elements_.size(); ++p) {
      const at::Tensor gradient = gradients[p].to(at::kDouble).contiguous();
      const ElementSettings settings{lr * settings_[p].lr_factor, settings_[p].weight_decay,
                                     steps_};
      for (std::size_t i = 0; i < elements_[p].size(); ++i)
        formula_(elements_[p][i], gradient.const_data_ptr<double>()[i], settings);
    }
  }

  at::Tensor parameter(std::size_t index, at::IntArrayRef sizes) const {
    at::Tensor result = at::empty(sizes, at::kDouble);
    for (std::size_t i = 0; i < elements_[index].size(); ++i)
      result.data_ptr<double>()[i] = elements_[index][i].value;
    return result;
  }

 private:
  Formula formula_;
  std::vector<std::vector<Element>> elements_;
  std::vector<ParameterGroup> settings_;
  std::int64_t steps_ = 0;
};

using Groups = std::vector<ParameterGroup>;
using MakeWithGroups =
    std::function<std::unique_ptr<Optimizer>(const NamedParameters&, const Groups&)>;

struct FormulaCase {
  const char* name;
  MakeWithGroups make;
  Formula formula;
};

FormulaCase adam_case(const char* name, const AdamOptions& o) {
  return {name, [o](const auto& p, const Groups& g) { return make_adam(p, g, o); },
          adam_formula(o)};
}
FormulaCase sgd_case(const char* name, const SgdOptions& o) {
  return {name, [o](const auto& p, const Groups& g) { return make_sgd(p, g, o); }, sgd_formula(o)};
}
FormulaCase rmsprop_case(const char* name, const RmsPropOptions& o) {
  return {name, [o](const auto& p, const Groups& g) { return make_rmsprop(p, g, o); },
          rmsprop_formula(o)};
}

// Adam divides by the root of a mean of squares: at eps 1e-8 the sign of a gradient near zero is
// amplified in any precision, so fp32 is compared with a well conditioned eps.
constexpr double kEps = 1e-5;

std::vector<FormulaCase> cases() {
  return {adam_case("adamw", {.eps = kEps}),
          adam_case("adam", {.eps = kEps, .decoupled_decay = false}),
          sgd_case("sgd", {.momentum = 0}),
          sgd_case("sgd with momentum", {.momentum = 0.9}),
          rmsprop_case("rmsprop", {.eps = kEps}),
          rmsprop_case("rmsprop with momentum", {.eps = kEps, .momentum = 0.5})};
}

/// The largest relative error of any parameter after kSteps.
double largest_error(at::ScalarType dtype, const MakeWithGroups& make, const Formula& formula,
                     const std::function<Groups(const NamedParameters&)>& groups) {
  const NamedParameters parameters = make_parameters(dtype);
  Reference reference(parameters, groups(parameters), formula);
  Windows windows(parameters);
  const auto optimizer = make(parameters, groups(parameters));
  for (std::int64_t step = 0; step < kSteps; ++step) {
    std::vector<at::Tensor> means;
    for (const at::Tensor& sum : windows.sums(step))
      means.push_back(sum.to(at::kDouble) / Windows::kWeight);
    optimizer->step(windows.mean(step), lr_at(step));
    reference.step(means, lr_at(step));
  }
  double largest = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    largest = std::max(
        largest, accrue::testing::relative_error(
                     parameters[i].tensor, reference.parameter(i, parameters[i].tensor.sizes())));
  return largest;
}

Groups decayed_matrices(const NamedParameters& parameters) { return groups_of(parameters, 0.3); }

TEST(OptimizerTest, AgreesWithTheFormulasInBothPrecisions) {
  for (const FormulaCase& c : cases())
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      const double bound = accrue::testing::tolerance(dtype).bound(kSteps);
      EXPECT_LE(largest_error(dtype, c.make, c.formula, decayed_matrices), bound)
          << c.name << ' ' << c10::toString(dtype);
    }
}

TEST(OptimizerTest, TheComparisonTellsFormulasApart) {
  const double bound = accrue::testing::tolerance(at::kFloat).bound(kSteps);
  const FormulaCase adamw = adam_case("", {.eps = kEps}), sgd = sgd_case("", {.momentum = 0.9});
  // Decoupled decay against L2, another beta, momentum left out.
  EXPECT_GT(largest_error(at::kFloat, adamw.make,
                          adam_formula({.eps = kEps, .decoupled_decay = false}), decayed_matrices),
            100 * bound);
  EXPECT_GT(largest_error(at::kFloat, adamw.make, adam_formula({.beta2 = 0.951, .eps = kEps}),
                          decayed_matrices),
            bound);
  EXPECT_GT(largest_error(at::kFloat, sgd.make, sgd_formula({.momentum = 0}), decayed_matrices),
            100 * bound);
}

TEST(OptimizerTest, GroupsHaveTheirOwnDecayAndRate) {
  const auto groups = [](const NamedParameters&) {
    return Groups{{.names = {"large", "bias"}, .weight_decay = 0.5, .lr_factor = 0.25},
                  {.names = {"turned", "matrix"}, .lr_factor = 3},
                  {.names = {"scale"}, .weight_decay = 0.1, .lr_factor = 0}};
  };
  const double bound = accrue::testing::tolerance(at::kDouble).bound(kSteps);
  for (const FormulaCase& c : cases())
    EXPECT_LE(largest_error(at::kDouble, c.make, c.formula, groups), bound) << c.name;
}

TEST(OptimizerTest, DefaultEpsilonAgreesInDouble) {
  const FormulaCase c = adam_case("", {});
  EXPECT_LE(largest_error(at::kDouble, c.make, c.formula, decayed_matrices), 1e-12);
}

/// With a changing decay, the remaining share of the initial moment is the product of all decays.
TEST(OptimizerTest, AdamsSecondMomentMayChangeItsDecay) {
  const NamedParameters parameters = make_parameters(at::kDouble);
  const AdamOptions options{.beta1 = 0, .eps = 1e-12};
  Windows windows(parameters);
  const auto optimizer = make_adam(parameters, groups_of(parameters, 0), options);
  std::vector<at::Tensor> expected, seconds;
  for (const auto& [name, tensor] : parameters) {
    expected.push_back(tensor.detach().clone());
    seconds.push_back(at::zeros_like(tensor));
  }
  double product = 1;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const double beta2 = 0.9 + 0.004 * static_cast<double>(step);
    optimizer->set_second_moment(beta2, std::log(product));
    product *= beta2;
    const std::vector<at::Tensor> sums = windows.sums(step);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const at::Tensor gradient = sums[i] / Windows::kWeight;
      seconds[i] = beta2 * seconds[i] + (1 - beta2) * gradient.square();
      expected[i] -= 0.01 * gradient / ((seconds[i] / (1 - product)).sqrt() + options.eps);
    }
    optimizer->step(windows.mean(step), 0.01);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(
        accrue::testing::close(parameters[i].tensor.detach(), expected[i], at::kDouble, kSteps))
        << parameters[i].name;
}

TEST(OptimizerTest, ClippingReachesTheStepThroughTheScale) {
  const NamedParameters clipped = make_parameters(at::kDouble),
                        plain = make_parameters(at::kDouble);
  Windows clipped_windows(clipped), plain_windows(plain);
  accum::MeanGradient gradient = clipped_windows.mean(0);
  const double norm = gradient.clip(0.5);
  ASSERT_GT(norm, 1);
  std::vector<at::Tensor> smaller = plain_windows.sums(0);
  for (at::Tensor& sum : smaller) sum *= 0.5 / norm;
  make_sgd(clipped, groups_of(clipped, 0), {})->step(std::move(gradient), 0.1);
  make_sgd(plain, groups_of(plain, 0), {})
      ->step(plain_windows.mean_of(smaller, Windows::kWeight), 0.1);
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_LE(accrue::testing::relative_error(clipped[i].tensor, plain[i].tensor), 1e-14);
}

TEST(OptimizerTest, UnusedParametersDecayAndTheirMomentumGoesOn) {
  const NamedParameters parameters = make_parameters(at::kDouble);
  Windows windows(parameters);
  const auto optimizer = make_sgd(parameters, groups_of(parameters, 0), {.momentum = 0.5});
  optimizer->step(windows.mean(0), 0.1);
  const at::Tensor matrix = parameters[0].tensor.detach().clone();
  std::vector<at::Tensor> sums = windows.sums(1);
  const at::Tensor first_mean = windows.sums(0)[0] / Windows::kWeight;
  sums[0] = at::Tensor();
  optimizer->step(windows.mean_of(sums, Windows::kWeight), 0.1);
  EXPECT_LE(accrue::testing::relative_error(parameters[0].tensor, matrix - 0.05 * first_mean),
            1e-14);
}

TEST(OptimizerTest, VersionCountersMoveSoThatLowPrecisionCopiesAreRenewed) {
  for (const FormulaCase& c : cases()) {
    const NamedParameters parameters = make_parameters(at::kFloat);
    Windows windows(parameters);
    std::vector<std::int64_t> before;
    for (const auto& [name, tensor] : parameters) before.push_back(tensor._version());
    c.make(parameters, groups_of(parameters, 0.1))->step(windows.mean(0), 0.1);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_GT(parameters[i].tensor._version(), before[i]) << c.name << parameters[i].name;
  }
}

TEST(OptimizerTest, TheBitsDoNotDependOnThreads) {
  const auto after_two_steps = [](int threads) {
    const int usual = at::get_num_threads();
    at::set_num_threads(threads);
    const NamedParameters parameters = make_parameters(at::kFloat);
    Windows windows(parameters);
    const auto optimizer = make_adam(parameters, groups_of(parameters, 0.1), {});
    for (const std::int64_t step : {0, 1}) optimizer->step(windows.mean(step), 0.01);
    at::set_num_threads(usual);
    return parameters[4].tensor.detach();
  };
  EXPECT_TRUE(at::equal(after_two_steps(1), after_two_steps(2)));
}

TEST(OptimizerTest, BadInputChangesNothing) {
  const NamedParameters parameters = make_parameters(at::kFloat);
  Windows windows(parameters);
  const auto optimizer = make_adam(parameters, groups_of(parameters, 0.1), {});
  const at::Tensor before = parameters[0].tensor.detach().clone();
  for (const double lr : {-0.1, static_cast<double>(NAN), static_cast<double>(INFINITY)})
    EXPECT_THAT(usage_message([&] { optimizer->step(windows.mean(0), lr); }),
                HasSubstr("learning rate that is finite and not negative"));
  EXPECT_TRUE(at::equal(parameters[0].tensor, before));
  EXPECT_EQ(optimizer->state()[0].tensor.item<std::int64_t>(), 0);
}

TEST(OptimizerTest, GradientsOfOtherParametersAreRefused) {
  const NamedParameters parameters = make_parameters(at::kFloat),
                        others = {parameters.begin(), parameters.begin() + 2};
  const auto of_two = make_sgd(others, groups_of(others, 0), {});
  Windows windows(parameters);
  EXPECT_THAT(usage_message([&] { of_two->step(windows.mean(0), 0.1); }),
              HasSubstr("gradients of 2 parameters, received 5"));
  const auto of_five = make_sgd(parameters, groups_of(parameters, 0), {});
  Windows windows_of_two(others);
  EXPECT_THAT(usage_message([&] { of_five->step(windows_of_two.mean(0), 0.1); }),
              HasSubstr("a gradient of turned, received none"));
}

TEST(OptimizerTest, OptionsOutOfRangeAreNamed) {
  const NamedParameters parameters = make_parameters(at::kFloat);
  const Groups groups = groups_of(parameters, 0);
  EXPECT_THAT(usage_message([&] { make_adam(parameters, groups, {.beta1 = 1}); }),
              HasSubstr("beta1 in [0, 1), received 1"));
  EXPECT_THAT(usage_message([&] { make_adam(parameters, groups, {.beta2 = -0.1}); }),
              HasSubstr("beta2 in [0, 1), received -0.1"));
  EXPECT_THAT(usage_message([&] { make_adam(parameters, groups, {.eps = NAN}); }),
              HasSubstr("eps in"));
  EXPECT_THAT(usage_message([&] { make_adam(parameters, groups, {.eps = 0}); }),
              HasSubstr("no gradient is 0 / eps, received 0"));
  EXPECT_THAT(usage_message([&] { make_adama(parameters, groups, {.eps = 0}); }),
              HasSubstr("eps in"));
  EXPECT_THAT(usage_message([&] { make_rmsprop(parameters, groups, {.eps = 1e-60}); }),
              HasSubstr("eps in"));
  EXPECT_THAT(usage_message([&] { make_sgd(parameters, groups, {.momentum = -1}); }),
              HasSubstr("momentum in [0, inf), received -1"));
  EXPECT_THAT(usage_message([&] { make_rmsprop(parameters, groups, {.alpha = 2}); }),
              HasSubstr("alpha in [0, 1), received 2"));
}

}  // namespace
}  // namespace accrue::optim
