// Faults of layouts that were published of other systems, planted in what one rank computes, sends
// or receives: each is found, and sound layouts that are drawn are called sound.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "changed_group.h"
#include "compared_ranks.h"

namespace accrue::proof {
namespace {

using testing::ChangedGroup;
using testing::ChangedModel;
using testing::ExchangesOfOneRank;

constexpr const char* kSums = "the sum of gradients";
constexpr const char* kNorm = "the norm of the gradient";
constexpr const char* kSegment = "the parameters of a segment";
constexpr const char* kActivations = "activations of the stage before";
constexpr const char* kGradients = "gradients of the stage after";

/// A change of the values that have this purpose.
ChangedGroup::Change of_purpose(std::string purpose,
                                std::function<void(const at::Tensor& values)> change) {
  return [purpose = std::move(purpose), change = std::move(change)](std::string_view what,
                                                                    const at::Tensor& values) {
    if (what == purpose) change(values);
  };
}

/// A change of the fp32 numbers that travel between stages as bytes. Shapes, and whether a
/// micro-batch is left out, travel in other messages.
ChangedGroup::Change of_numbers(std::string purpose,
                                std::function<void(const at::Tensor& values)> change) {
  return of_purpose(std::move(purpose), [change = std::move(change)](const at::Tensor& bytes) {
    if (bytes.scalar_type() == at::kByte && bytes.numel() > 1) change(bytes.view(at::kFloat));
  });
}

void round_to_bf16(const at::Tensor& values) { values.copy_(values.to(at::kBFloat16)); }

/// The rank keeps its own values, as if no other rank had any.
ChangedGroup::Fault keeps_own(const std::string& purpose) {
  auto own = std::make_shared<std::vector<at::Tensor>>();
  return {.sent = of_purpose(purpose,
                             [own](const at::Tensor& values) { own->push_back(values.clone()); }),
          .received = of_purpose(purpose, [own](const at::Tensor& values) {
            values.copy_(own->front());
            own->erase(own->begin());
          })};
}

/// Messages arrive one late: in place of the first, it is repeated.
ChangedGroup::Fault arrive_late(const std::string& purpose) {
  auto last = std::make_shared<at::Tensor>();
  return {.received = of_numbers(purpose, [last](const at::Tensor& values) {
            const at::Tensor now = values.clone();
            if (last->defined() && last->numel() == values.numel()) values.copy_(*last);
            *last = now;
          })};
}

/// Message `number` of this purpose, from 0, is of zeros.
ChangedGroup::Fault loses_message(const std::string& purpose, int number) {
  return {.received = of_numbers(
              purpose, [next = std::make_shared<int>(0), number](const at::Tensor& values) {
                if ((*next)++ == number) values.zero_();
              })};
}

using Head = decltype(models::LossHead::forward);

/// `change` calls the sound loss, which it gets first.
ChangedModel::Fault in_loss(
    std::function<Loss(const Head& sound, const at::Tensor& x, const batch::MicroBatch& micro,
                       const ForwardContext& context, double scale)>
        change) {
  return {.losses = [change = std::move(change)](testing::LossHeads& heads) {
    heads.front().forward = [sound = heads.front().forward, change](
                                const models::Activations& x, const batch::MicroBatch& micro,
                                const ForwardContext& context, double scale) {
      return change(sound, x.at(0), micro, context, scale);
    };
  }};
}

ChangedModel::Fault counts_more(double factor) {
  return in_loss([factor](const Head& sound, const at::Tensor& x, const batch::MicroBatch& micro,
                          const ForwardContext& context, double scale) {
    Loss loss = sound({x}, micro, context, scale * factor);
    loss.sum = loss.sum * factor;
    return loss;
  });
}

ChangedModel::Fault weighs_double() {
  return in_loss([](const Head& sound, const at::Tensor& x, const batch::MicroBatch& micro,
                    const ForwardContext& context, double scale) {
    Loss loss = sound({x}, micro, context, scale);
    loss.weight *= 2;
    return loss;
  });
}

/// A term that is no sum over samples: that of two halves is not that of the whole.
ChangedModel::Fault adds_term_of_the_micro_batch() {
  return in_loss([](const Head& sound, const at::Tensor& x, const batch::MicroBatch& micro,
                    ForwardContext context, double scale) {
    context.last_reader = false;
    Loss loss = sound({x}, micro, context, scale);
    const auto samples = static_cast<double>(micro.sample_ids.size());
    loss.sum = loss.sum + 0.1 * samples * x.to(at::kFloat).pow(4).mean().square();
    return loss;
  });
}

/// Dropout that is drawn by the place in the micro-batch, so that ranks drop the same.
ChangedModel::Fault draws_by_place() {
  return {.segments = [](testing::Segments& segments) {
    for (models::Segment& segment : segments)
      segment.forward = [sound = segment.forward](const models::Activations& x,
                                                  const batch::MicroBatch& micro,
                                                  ForwardContext context) {
        for (std::size_t place = 0; place < context.sample_ids.size(); ++place)
          context.sample_ids[place] = static_cast<std::int64_t>(place);
        return sound(x, micro, context);
      };
  }};
}

class LayoutFaults : public testing::ComparedRanks {
 protected:
  void SetUp() override {
    ComparedRanks::SetUp();
    memory::install_caching_allocator();
  }

  static void expect_sums_found(const train::Config& config, const std::string& name,
                                const ChangedModel::Fault& in_model,
                                const ChangedGroup::Fault& in_group = {}) {
    SCOPED_TRACE(name);
    const SplitResult broken = compared(config, in_model, ExchangesOfOneRank(1, in_group));
    EXPECT_FALSE(broken.equal) << broken.relative_error << " of " << broken.bound;
  }
  static void expect_sums_equal(const train::Config& config) {
    const SplitResult sound = compared(config, {}, ExchangesOfOneRank(1, {}));
    EXPECT_TRUE(sound.equal) << sound.relative_error << " of " << sound.bound;
  }
  static void expect_steps_found(const train::Config& config, const std::string& name,
                                 const ChangedGroup::Fault& fault) {
    SCOPED_TRACE(name);
    const Report broken = verified_by_two(config, ExchangesOfOneRank(1, fault));
    EXPECT_FALSE(broken.equal);
    ASSERT_TRUE(broken.steps) << why(broken);
    EXPECT_FALSE(broken.steps->equal) << why(broken);
  }

  train::Config of_stages() const {
    train::Config config = of_text();
    config.dist.stages = 2;
    return config;
  }
};

TEST_F(LayoutFaults, OfRanksThatAddUpWholeSumsAreFound) {
  const train::Config config = of_text();
  expect_sums_equal(config);
  expect_sums_found(config, "sums that are not reduced", {}, keeps_own(kSums));
  expect_sums_found(config, "sums that are reduced twice", {},
                    {.received = of_purpose(kSums, [](const at::Tensor& sum) { sum.mul_(2); })});
  expect_sums_found(config, "a mean over ranks in place of a sum", {},
                    {.received = of_purpose(kSums, [](const at::Tensor& sum) { sum.div_(2); })});
  expect_sums_found(config, "sums that are rounded before they are added", {},
                    {.sent = of_purpose(kSums, round_to_bf16)});
  expect_sums_found(config, "a part of the sums that is left out", {},
                    {.sent = of_purpose(kSums, [](const at::Tensor& sum) {
                       sum.narrow(0, 0, std::max<std::int64_t>(1, sum.numel() / 8)).zero_();
                     })});
}

TEST_F(LayoutFaults, OfWhatARankComputesAreFound) {
  const train::Config config = of_text();
  expect_sums_found(config, "dropout that is equal on ranks", draws_by_place());
  expect_sums_found(config, "a loss weighted by ranks and not by its terms", counts_more(1.25));
  expect_sums_found(config, "a weight that counts once for each rank", weighs_double());
  expect_sums_found(config, "another loss that depends on how samples are divided",
                    adds_term_of_the_micro_batch());
}

TEST_F(LayoutFaults, OfDividedSumsAreFound) {
  train::Config config = of_divided_text();
  for (const auto shard : {train::Shard::optimizer, train::Shard::all}) {
    config.dist.shard = shard;
    SCOPED_TRACE(to_string(shard));
    expect_sums_equal(config);
    expect_sums_found(
        config, "parts that are sent to another owner", {},
        {.sent = of_purpose(kSums, [](const at::Tensor& rows) { rows.copy_(rows.flip(0)); })});
    expect_sums_found(
        config, "a replica group without the other rank", {},
        {.received = of_purpose(kSums, [](const at::Tensor& rows) { rows.select(0, 0).zero_(); })});
  }
}

TEST_F(LayoutFaults, OfParametersThatARankBringsAreFound) {
  const train::Config config = of_divided_text();
  expect_sums_equal(config);
  expect_sums_found(
      config, "parameters that arrive after they are read", {},
      {.received = of_purpose(kSegment, [](const at::Tensor& part) { part.zero_(); })});
  expect_sums_found(config, "parameters that are sent in another precision", {},
                    {.sent = of_purpose(kSegment, round_to_bf16)});
  expect_sums_found(
      config, "a part at another place of its parameter", {},
      {.received = of_purpose(kSegment, [](const at::Tensor& part) { part.copy_(part.roll(1)); })});
}

TEST_F(LayoutFaults, OfStagesAreFound) {
  const train::Config config = of_stages();
  expect_sums_equal(config);
  expect_sums_found(config, "activations of the micro-batch before", {}, arrive_late(kActivations));
  const auto expect_found_of_first = [&](const std::string& name,
                                         const ChangedGroup::Fault& fault) {
    SCOPED_TRACE(name);
    const SplitResult broken = compared(config, {}, ExchangesOfOneRank(0, fault));
    EXPECT_FALSE(broken.equal) << broken.relative_error << " of " << broken.bound;
  };
  expect_found_of_first(
      "gradients that are divided by the stages",
      {.received = of_numbers(kGradients, [](const at::Tensor& gradient) { gradient.div_(2); })});
  expect_found_of_first("a stage that skips its last micro-batch", loses_message(kGradients, 2));
  expect_found_of_first("gradients of the micro-batch before", arrive_late(kGradients));
}

TEST_F(LayoutFaults, OfStepsAreFound) {
  train::Config config = of_text();
  config.optim.clip = 0.5;
  config.dist.shard = train::Shard::optimizer;
  const Report sound = verified_by_two(config, ExchangesOfOneRank(1, {}));
  EXPECT_TRUE(sound.equal) << why(sound);
  expect_steps_found(config, "a norm of one rank's part", keeps_own(kNorm));
  expect_steps_found(config, "stepped parameters that are sent in another precision",
                     {.sent = of_purpose("", [](const at::Tensor& values) {
                        if (values.scalar_type() == at::kFloat) round_to_bf16(values);
                      })});
}

/// Numbers of a layout, drawn from a fixed seed.
class DrawnLayout {
 public:
  explicit DrawnLayout(std::uint32_t seed) : random_(seed) {}

  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random_() % static_cast<std::uint32_t>(most - least + 1));
  }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[between(0, static_cast<std::int64_t>(values.size()) - 1)];
  }

 private:
  std::mt19937 random_;
};

/// More in the long form (scripts/long_tests.py).
std::uint32_t layouts_to_draw() {
  const char* const stated = std::getenv("ACCRUE_SOUND_LAYOUTS");
  return stated != nullptr ? static_cast<std::uint32_t>(std::stoul(stated)) : 20;
}

TEST_F(LayoutFaults, SoundLayoutsAreCalledSound) {
  using accum::Accumulation;
  for (std::uint32_t seed = 0; seed < layouts_to_draw(); ++seed) {
    DrawnLayout drawn(seed);
    const auto shard =
        drawn.one_of({train::Shard::none, train::Shard::optimizer, train::Shard::all});
    train::Config config = shard == train::Shard::all ? of_divided_text() : of_text();
    config.run.seed = seed;
    config.model.layers = drawn.between(1, 4);
    config.batch.samples = drawn.between(5, 12);
    config.precision.accumulate =
        drawn.one_of({Accumulation::fp32, Accumulation::fp64, Accumulation::fixed});
    config.dist.shard = shard;
    config.dist.reduce = drawn.one_of({train::Reduce::overlap, train::Reduce::end});
    const std::int64_t ranks = drawn.between(2, 4), micro = drawn.between(1, 5);
    // A stage has at least one block.
    if (shard == train::Shard::none && config.model.layers > 1 && drawn.between(0, 1) == 1)
      config.dist.stages = std::min(ranks, config.model.layers);
    if (shard != train::Shard::all)
      config.precision.compute = drawn.one_of({models::Compute::fp32, models::Compute::bf16});
    const std::int64_t world = config.dist.stages > 1 ? config.dist.stages : ranks;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + std::string(to_string(shard)) + ", " +
                 std::to_string(world) + " ranks, " + std::to_string(config.dist.stages) +
                 " stages, " + std::string(to_string(config.precision.accumulate)));
    const SplitResult sound = compared(config, {}, training_parts(), world, micro);
    EXPECT_TRUE(sound.equal) << sound.relative_error << " of " << sound.bound;
  }
}

}  // namespace
}  // namespace accrue::proof
