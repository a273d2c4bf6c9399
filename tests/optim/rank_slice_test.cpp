// Optimizers that store and step a part of each parameter.
#include <gmock/gmock.h>

#include <functional>

#include "windows.h"

namespace accrue::optim {
namespace {

using testing::groups_of;
using ::testing::HasSubstr;
using testing::kDecay;
using testing::kFewSteps;
using testing::kLr;
using testing::random_tensor;
using testing::usage_message;
using testing::Windows;

using MakeWithState =
    std::function<std::unique_ptr<Optimizer>(const NamedParameters&, const StateOptions&)>;

struct PartedKind {
  std::string name;
  MakeWithState make;
};

const std::vector<PartedKind>& parted_kinds() {
  static const std::vector<PartedKind> all{
      {"adamw", [](const NamedParameters& p,
                   const StateOptions& s) { return make_adam(p, groups_of(p, kDecay), {}, s); }},
      {"adam",
       [](const NamedParameters& p, const StateOptions& s) {
         return make_adam(p, groups_of(p, kDecay), {.decoupled_decay = false}, s);
       }},
      {"sgd", [](const NamedParameters& p,
                 const StateOptions& s) { return make_sgd(p, groups_of(p, kDecay), {}, s); }},
      {"rmsprop",
       [](const NamedParameters& p, const StateOptions& s) {
         return make_rmsprop(p, groups_of(p, kDecay), {.momentum = 0.9}, s);
       }},
  };
  return all;
}

/// Parameters with several grains and a tail, with codes, with few elements, frozen and tied.
NamedParameters make_parameters() {
  NamedParameters parameters{{"matrix", random_tensor({70, 131}, at::kFloat, 1)},
                             {"frozen", random_tensor({2500}, at::kFloat, 2)},
                             {"bias", random_tensor({37}, at::kFloat, 3)},
                             {"vector", random_tensor({5000}, at::kFloat, 4)},
                             {"scale", random_tensor({1}, at::kFloat, 5)}};
  for (auto& [name, tensor] : parameters) tensor.requires_grad_(name != "frozen");
  parameters.push_back({"tied", parameters[0].tensor});
  return parameters;
}

StateOptions part_options(std::int64_t rank, std::int64_t world,
                          StatePrecision precision = StatePrecision::fp32) {
  return {.precision = precision, .seed = 3, .slice = {rank, world}};
}

/// Parameters that several optimizers step, each a part of them.
struct Parts {
  NamedParameters parameters = make_parameters();
  Windows windows{parameters};
  std::vector<std::unique_ptr<Optimizer>> optimizers;

  Parts(const MakeWithState& make, std::int64_t world, StatePrecision precision) {
    for (std::int64_t rank = 0; rank < world; ++rank)
      optimizers.push_back(make(parameters, part_options(rank, world, precision)));
  }
  void step(std::int64_t index) {
    for (const auto& optimizer : optimizers) optimizer->step(windows.mean(index), kLr);
  }
  /// The complete state by name.
  NamedParameters state() const {
    NamedParameters result{optimizers.front()->state().front()};
    for (const auto& optimizer : optimizers) {
      std::size_t i = 1;
      for (const StateRange& own : optimizer->ranges()) {
        if (optimizer == optimizers.front())
          result.push_back({own.name, at::empty(own.shape, own.values.options())});
        EXPECT_EQ(result[i].name, own.name);
        result[i++]
            .tensor.view({-1})
            .narrow(0, own.range.begin, own.range.elements)
            .copy_(own.values);
      }
    }
    return result;
  }
  std::int64_t most_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& optimizer : optimizers) bytes = std::max(bytes, optimizer->state_bytes());
    return bytes;
  }
};

bool same_bits(const NamedParameters& a, const NamedParameters& b) {
  return std::ranges::equal(a, b, [](const NamedParameter& one, const NamedParameter& other) {
    return one.name == other.name && at::equal(one.tensor, other.tensor);
  });
}

TEST(PartOfAnOptimizer, TogetherHaveTheBitsOfOne) {
  for (const PartedKind& kind : parted_kinds())
    for (const auto precision : {StatePrecision::fp32, StatePrecision::bf16, StatePrecision::int8})
      for (const std::int64_t world : {2, 3}) {
        SCOPED_TRACE(kind.name + " " + std::string(to_string(precision)) + " of " +
                     std::to_string(world));
        Parts one(kind.make, 1, precision), parts(kind.make, world, precision);
        for (std::int64_t step = 0; step < kFewSteps; ++step) {
          one.step(step);
          parts.step(step);
        }
        EXPECT_TRUE(same_bits(parts.parameters, one.parameters));
        EXPECT_TRUE(same_bits(parts.state(), one.optimizers.front()->state()));
      }
}

/// The comparison must detect this: a part that did not step.
TEST(PartOfAnOptimizer, OneThatDidNotStepWouldBeNoticed) {
  const MakeWithState& make = parted_kinds().front().make;
  Parts one(make, 1, StatePrecision::fp32), parts(make, 3, StatePrecision::fp32);
  parts.optimizers.pop_back();
  one.step(0);
  parts.step(0);
  EXPECT_FALSE(same_bits(parts.parameters, one.parameters));
}

TEST(PartOfAnOptimizer, TakesItsPartOfTheWholeState) {
  for (const PartedKind& kind : parted_kinds())
    for (const auto precision : {StatePrecision::fp32, StatePrecision::int8}) {
      SCOPED_TRACE(kind.name);
      Parts one(kind.make, 1, precision), parts(kind.make, 3, precision);
      one.step(0);
      const NamedParameters whole = one.optimizers.front()->state();
      for (const auto& optimizer : parts.optimizers) optimizer->load_state(whole);
      EXPECT_TRUE(same_bits(parts.state(), whole));
    }
}

TEST(PartOfAnOptimizer, KeepsItsShareOfTheBytes) {
  for (const auto precision : {StatePrecision::fp32, StatePrecision::bf16}) {
    NamedParameters parameters{{"large", at::zeros({300, 1000}).requires_grad_(true)}};
    for (int i = 0; i < 24; ++i)
      parameters.push_back({"bias" + std::to_string(i), at::zeros({500}).requires_grad_(true)});
    const MakeWithState& make = parted_kinds().front().make;
    const std::int64_t whole = make(parameters, part_options(0, 1, precision))->state_bytes();
    for (const std::int64_t world : {2, 3, 4}) {
      std::int64_t sum = 0;
      const std::int64_t grain = whole / 312'000 * kRangeGrain;
      for (std::int64_t rank = 0; rank < world; ++rank) {
        const std::int64_t bytes =
            make(parameters, part_options(rank, world, precision))->state_bytes();
        EXPECT_LE(bytes, whole / world + grain) << "rank " << rank << " of " << world;
        sum += bytes;
      }
      EXPECT_EQ(sum, whole);
    }
  }
}

TEST(PartOfAnOptimizer, RefusesByName) {
  NamedParameters turned{{"turned", at::zeros({3, 5}).t().requires_grad_(true)}};
  EXPECT_THAT(usage_message([&] { parted_kinds().front().make(turned, part_options(0, 2)); }),
              HasSubstr("turned, which is not"));
  const NamedParameters parameters = make_parameters();
  EXPECT_THAT(usage_message([&] {
                make_adama(parameters, groups_of(parameters, 0), {}, part_options(0, 2));
              }),
              HasSubstr("one of a rank's slice"));
  const auto part = parted_kinds().front().make(parameters, part_options(0, 2));
  EXPECT_THAT(usage_message([&] { part->load_state(part->state()); }),
              HasSubstr("exp_avg.matrix as Float [70, 131]"));
}

}  // namespace
}  // namespace accrue::optim
