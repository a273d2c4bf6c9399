// The memory of a plan's trials, and their result if they do not fit.
#include "train/plan/plan_trials.h"

#include <gmock/gmock.h>

#include <fstream>

#include "accrue/core/error.h"
#include "accrue/kernels/prepared_weight.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/memory/shard_scope.h"
#include "data/fetch.h"
#include "train/plan/activation_placement.h"
#include "train/plan/plan.h"
#include "train/plan/plan_choice.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using ::testing::HasSubstr;

constexpr memory::PlanPoint two_samples{2, Recompute::none};

class PlanMemory : public testing::TinyRun {
 protected:
  void SetUp() override {
    TinyRun::SetUp();
    memory::install_caching_allocator();
    memory::release_cached();
  }

  Config open_config() const {
    Config c = config();
    c.batch.micro.reset();
    c.batch.tokens = 32 * 16;
    return c;
  }

  Config adama_config() const {
    Config c = open_config();
    c.optim.kind = OptimizerKind::adama;
    c.optim.clip = 0;
    return c;
  }

  /// 16 images of 8 x 8 in a batch, with exact batch normalisation.
  Config exact_config() const {
    write_images(32, 8);
    Config c = open_config();
    c.data.train = {(folder_ / "set-images-idx3-ubyte").string()};
    c.data.format = data::Format::images;
    c.data.val_fraction = 0;
    c.model = {.kind = ModelKind::resnet, .layers = 8, .width = 4};
    c.model.batchnorm = models::BatchNormPolicy::exact;
    c.batch.tokens.reset();
    c.batch.samples = 16;
    return c;
  }

 private:
  /// In the format of MNIST.
  void write_images(int count, int side) const {
    const auto put = [](std::ofstream& file, int number) {
      for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(number >> shift));
    };
    std::ofstream images(folder_ / "set-images-idx3-ubyte", std::ios::binary);
    for (const int number : {0x803, count, side, side}) put(images, number);
    for (int i = 0; i < count * side * side; ++i) images.put(static_cast<char>(i * 7919 % 256));
    std::ofstream labels(folder_ / "set-labels-idx1-ubyte", std::ios::binary);
    for (const int number : {0x801, count}) put(labels, number);
    for (int i = 0; i < count; ++i) labels.put(static_cast<char>(i % 3));
  }
};

std::int64_t growth(const memory::Usage& since, MemoryTag tag) {
  return memory::usage().live_as(tag) - since.live_as(tag);
}

/// Of three ranks, none of which ever has the whole model: parameters are drawn in parts, and
/// trials bring zeros in place of the others'.
TEST_F(PlanMemory, IsThatOfAPartIfRanksDivideTheModel) {
  Config c = open_config();
  c.model.width = 128;
  c.model.layers = 8;
  c.dist.shard = Shard::all;
  const NamedParameters whole = open_workload(c).model->parameters();

  const RankSlice slice{1, 3};
  const memory::ShardScope scope(slice);
  const std::int64_t before = memory::shard_usage().in_memory;
  memory::restart_shard_peak();
  Workload work = open_workload(c);
  work.slice = slice;
  const NamedParameters divided = work.model->parameters();
  std::int64_t bytes = 0, own_bytes = 0, block = 0, embedding = 0;
  for (std::size_t i = 0; i < divided.size(); ++i) {
    const auto& [name, tensor] = divided[i];
    if (!memory::is_in_shard_scope(tensor)) continue;
    const auto all_of_it = static_cast<std::int64_t>(tensor.nbytes());
    bytes += all_of_it;
    own_bytes += element_range_of(tensor.numel(), i, slice).elements * 4;
    if (name.find(".h.0.") != std::string::npos) block += all_of_it;
    if (name.find("wte") != std::string::npos) embedding += all_of_it;
  }
  EXPECT_EQ(memory::shard_usage().in_memory - before, own_bytes);
  EXPECT_LE(memory::shard_usage().most_in_memory - before, own_bytes + embedding + block)
      << "one parameter is zeros until its part is drawn";

  memory::restart_shard_peak();
  {
    PlanTrials trials(work);
    const std::int64_t sums = bytes;  // untouched memory of the trials' sums counts until a pass
    EXPECT_LE(memory::shard_usage().most_in_memory - before, own_bytes + sums);
    memory::restart_shard_peak();
    EXPECT_TRUE(trials.run(two_samples).fits);
    const PlanTrials::Step step = trials.run_step(two_samples);
    EXPECT_TRUE(step.micro.fits);
    EXPECT_FALSE(step.closing_seconds) << "a step needs the others";
    const std::int64_t most = memory::shard_usage().most_in_memory - before;
    const std::int64_t small = bytes / 20;  // sums of norms and biases, pages at the ends of parts
    EXPECT_LE(most, 2 * bytes / 3 + 3 * block + 2 * embedding + small);
    EXPECT_GT(most, 2 * bytes / 3) << "control: parts of parameters and sums count";
    EXPECT_LT(2 * bytes / 3 + 3 * block + 2 * embedding + small, 2 * bytes) << "control";
  }
  for (std::size_t i = 0; i < divided.size(); ++i) {
    const ElementRange own = memory::kept_part(divided[i].tensor);
    const auto part = [&](const at::Tensor& tensor) {
      return tensor.detach().view({-1}).narrow(0, own.begin, own.elements);
    };
    EXPECT_TRUE(part(divided[i].tensor).equal(part(whole[i].tensor))) << divided[i].name;
    EXPECT_EQ(memory::is_kept_in_part(divided[i].tensor),
              memory::is_in_shard_scope(divided[i].tensor))
        << divided[i].name;
  }
}

/// fp32: the tensors themselves. bf16: additionally a copy of each matrix, except the positions',
/// which are looked up and never multiplied. Packed weights count, too; their size depends on the
/// machine.
TEST_F(PlanMemory, IsTaggedByWhatItIsFor) {
  for (const auto compute : {models::Compute::fp32, models::Compute::bf16}) {
    SCOPED_TRACE(to_string(compute));
    Config c = open_config();
    c.precision.compute = compute;
    const memory::Usage before = memory::usage();
    const Workload work = open_workload(c);
    work.model->pack_weights(false);
    std::int64_t masters = 0, multiplied = 0;
    for (const auto& [name, tensor] : work.model->parameters()) {
      masters += static_cast<std::int64_t>(tensor.nbytes());
      if (tensor.dim() == 2 && name.find("wpe") == std::string::npos) multiplied += tensor.numel();
    }
    EXPECT_EQ(growth(before, MemoryTag::parameters), masters);
    PlanTrials trials(work);
    EXPECT_EQ(growth(before, MemoryTag::gradients), trials.resident().gradients);
    EXPECT_EQ(growth(before, MemoryTag::optimizer), trials.resident().optimizer);
    EXPECT_EQ(trials.resident().optimizer, 2 * masters);
    EXPECT_TRUE(trials.run(two_samples).fits);
    const std::int64_t copies =
        work.config.precision.compute == models::Compute::bf16 ? 2 * multiplied : 0;
    EXPECT_EQ(growth(before, MemoryTag::parameters), masters + copies);
    for (const bool packed : {false, true}) {
      work.model->pack_weights(packed);
      EXPECT_TRUE(trials.run(two_samples).fits);
      const memory::Usage now = memory::usage();
      EXPECT_EQ(trials.resident().parameters,
                now.live_as(MemoryTag::parameters) + now.live_as(MemoryTag::packed))
          << packed;
    }
  }
}

TEST_F(PlanMemory, WeightsArePackedOnlyWhereThatTakesLittleOfTheBudget) {
  const memory::Usage before = memory::usage();
  const auto taken_with = [&](std::int64_t budget) {
    memory::set_budget(memory::usage().reserved + budget);
    const Workload work = open_workload(open_config());
    EXPECT_TRUE(PlanTrials(work).run(two_samples).fits);
    memory::set_budget(std::nullopt);
    return growth(before, MemoryTag::packed);
  };
  const std::int64_t much = std::int64_t{1} << 30, little = std::int64_t{1} << 22;
  const at::Tensor weight = at::ones({64, 64}), x = at::ones({2, 64});
  kernels::PreparedWeight prepared;
  prepared.pack(true);
  const bool packs = prepared.operands(weight, at::kFloat, false).forward.dim() == 1;
  EXPECT_EQ(taken_with(much) > taken_with(little), packs);
}

TEST_F(PlanMemory, TrialsOfFoldedGradientsLeaveParametersUntouched) {
  const Workload work = open_workload(adama_config());
  NamedParameters before;
  std::vector<std::uint32_t> versions;
  for (const NamedParameter& p : work.model->parameters()) {
    before.push_back({p.name, p.tensor.detach().clone()});
    versions.push_back(p.tensor._version());
  }
  PlanTrials trials(work);
  EXPECT_TRUE(trials.run(two_samples).fits);
  const PlanTrials::Step step = trials.run_step(two_samples);
  EXPECT_TRUE(step.micro.fits);
  EXPECT_FALSE(step.closing_seconds.has_value()) << "there is no step to measure";
  const NamedParameters after = work.model->parameters();
  expect_same_bits(before, after);
  for (std::size_t i = 0; i < after.size(); ++i)
    EXPECT_EQ(after[i].tensor._version(), versions[i]) << after[i].name;
}

TEST_F(PlanMemory, AStepFitsOnlyWhereNothingOfItRanOutOfMemory) {
  const Workload work = open_workload(open_config());
  NamedParameters before;
  for (const NamedParameter& p : work.model->parameters())
    before.push_back({p.name, p.tensor.detach().clone()});
  PlanTrials trials(work);
  trials.run(two_samples);
  const std::int64_t at_first = memory::usage().allocations;
  trials.run(two_samples);
  const std::int64_t of_run = memory::usage().allocations - at_first;
  std::int64_t failed = 0;
  for (const std::int64_t first :
       {std::int64_t{1}, of_run / 2, of_run + 1, of_run + 5, of_run + 20}) {
    const memory::FailingAllocations failing(first);
    const PlanTrials::Step step = trials.run_step(two_samples);
    EXPECT_EQ(step.micro.fits, failing.failed() == 0) << first;
    EXPECT_EQ(step.closing_seconds.has_value(), step.micro.fits) << first;
    failed += failing.failed();
  }
  EXPECT_GE(failed, 2);
  EXPECT_TRUE(trials.run_step(two_samples).micro.fits);
  expect_same_bits(before, work.model->parameters());
}

bool runs_the_plan(const std::string& what) { return what.starts_with("running the plan"); }

TEST_F(PlanMemory, APlanThatRanOutOfMemoryIsFollowedByAnother) {
  std::unique_ptr<memory::FailingAllocations> failing;
  const PlanReport report = plan_run(open_config(), {.progress = [&](const std::string& what) {
                                       if (runs_the_plan(what) && !failing)
                                         failing = std::make_unique<memory::FailingAllocations>(1);
                                     }});
  ASSERT_NE(failing, nullptr);
  EXPECT_EQ(failing->failed(), 1);
  const memory::Fact& last = report.facts.back();
  EXPECT_FALSE(last.measured.fits);
  EXPECT_NE(report.plan.chosen.point, last.point);
  EXPECT_TRUE(report.measured.fits);
  EXPECT_GT(report.measured.seconds, 0);
}

TEST_F(PlanMemory, IsRefusedWhereEachPlanRunsOutOfMemory) {
  std::unique_ptr<memory::FailingAllocations> failing;
  try {
    plan_run(open_config(), {.progress = [&](const std::string& what) {
               if (runs_the_plan(what) && !failing)
                 failing = std::make_unique<memory::FailingAllocations>(1, 1'000'000'000);
             }});
    FAIL();
  } catch (const Error& error) {
    failing.reset();
    EXPECT_EQ(error.exit_code(), 3);
    EXPECT_THAT(error.received(), HasSubstr("missing"));
  }
}

TEST_F(PlanMemory, ExactBatchNormalisationHoldsTheCutsOfAWindow) {
  const Workload work = open_workload(exact_config());
  memory::PlanQuestion question = plan_question(work);
  const auto trials = begin_trials(work, question);
  const std::vector<std::int64_t> first{0};
  const batch::MicroBatch one = data::fetch_as(*work.data.train, first, first);
  EXPECT_EQ(question.resident.cuts, 16 * cut_bytes_per_sample(*work.model, one));
  EXPECT_GT(question.resident.cuts, 0);
  EXPECT_GE(trials->run(two_samples).peak_bytes, question.resident.total());
  const Workload text = open_workload(open_config());
  EXPECT_EQ(PlanTrials(text).resident().cuts, 0);
}

TEST_F(PlanMemory, CutsThatWouldTakeMuchOfTheBudgetAreKeptInAFile) {
  const Workload work = open_workload(exact_config());
  const ActivationPlacement without = choose_activation_placement(work, 16);
  EXPECT_FALSE(without.in_file) << without.reason;
  memory::release_cached();
  memory::set_budget(memory::usage().reserved + 3 * without.bytes);
  const ActivationPlacement within = choose_activation_placement(work, 16);
  EXPECT_TRUE(within.in_file) << within.reason;
  EXPECT_EQ(PlanTrials(work).resident().cuts, 0);
}

}  // namespace
}  // namespace accrue::train
