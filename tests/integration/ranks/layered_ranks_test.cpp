// Windows in layered order on several ranks, in memory and with the state of each rank in a file.
#include <ATen/ATen.h>

#include <filesystem>

#include "integration/ranks/distributed_run.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using testing::Words;

class LayeredRanks : public testing::DistributedRun {
 protected:
  /// A run in standard order. The matrices are large enough to be offloaded (64 KiB).
  Config standard(const std::string& out) const {
    Config c = small(out);
    c.run.steps = 3;
    c.model.width = 128;
    c.precision.accumulate = accum::Accumulation::fixed;
    c.optim.kind = OptimizerKind::adamw;
    c.optim.lr = 1e-2;
    c.optim.schedule.kind = optim::ScheduleKind::constant;
    return c;
  }

  Config layered(const std::string& out) const {
    Config c = standard(out);
    c.memory.accumulation = AccumulationOrder::layered;
    return c;
  }

  /// Each rank keeps a part of the parameters, sums and optimizer state.
  Config divided(const std::string& out) const {
    Config c = layered(out);
    c.dist.shard = Shard::all;
    return c;
  }

  /// What the first rank reports at its end: bytes of parameters and sums in memory at once.
  static std::int64_t most_bytes_of(const Config& c) {
    const std::string reason = events_of("dist", c).back().at("reason").get<std::string>();
    return std::stoll(reason.substr(reason.find('(') + 1));
  }

  /// Not the temporary folder, which may lie in memory.
  static std::string offloaded() {
    return "--memory.offload=" + std::filesystem::current_path().string();
  }

  static void expect_same_state(const Config& c, const Config& expected) {
    expect_same_bits(parameters_of(c), parameters_of(expected));
    expect_same_bits(state_of(c), state_of(expected));
  }
  static void expect_same_run(const Config& c, const Config& expected) {
    expect_same_state(c, expected);
    EXPECT_TRUE(evaluates_alike(c, expected));
    const auto steps = steps_of(c), expected_steps = steps_of(expected);
    ASSERT_EQ(steps.size(), expected_steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i)
      for (const char* key : {"step", "samples", "tokens", "weight", "micro_batches", "grad_norm"})
        EXPECT_EQ(steps[i][key], expected_steps[i][key]) << key;
  }
};

TEST_F(LayeredRanks, HaveTheBitsOfOneProcessInFixedPoint) {
  const Config alone = standard("alone");
  expect_runs(alone, 1);
  for (const Reduce reduce : {Reduce::overlap, Reduce::end}) {
    Config c = layered(std::string(reduce_words.of(reduce)));
    c.dist.reduce = reduce;
    expect_runs(c, 2);
    expect_same_run(c, alone);
  }
  Config divided = layered("divided");
  divided.dist.shard = Shard::optimizer;
  expect_runs(divided, 2);
  expect_same_run(divided, alone);

  Config control = layered("control");
  control.optim.lr *= 1.05;
  expect_runs(control, 2);
  EXPECT_FALSE(
      at::equal(parameters_of(control).front().tensor, parameters_of(alone).front().tensor));
}

TEST_F(LayeredRanks, HaveTheSameBitsOffloadedOnAllOrOnOne) {
  const Config alone = layered("alone");
  expect_runs(alone, 1, {offloaded()});
  const Config all = layered("all");
  expect_runs(all, 2, {offloaded()});
  EXPECT_EQ(events_of("offload", all).size(), 1U);
  expect_same_run(all, alone);

  const Config one = layered("one");
  const Words in_file = command(one, {offloaded()}), in_memory = command(one);
  for (const Program::Result& result : accrue::testing::run_ranks(
           folder_, 2, 2, [&](int rank) { return rank == 0 ? in_file : in_memory; }))
    EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(events_of("offload", one).size(), 1U);
  expect_same_run(one, alone);
}

/// The embedding is tied to the head, so its sums are final after the first segment's backward.
TEST_F(LayeredRanks, HaveTheBitsOfOneProcessIfTheyDivideTheModel) {
  const Config alone = standard("alone");
  expect_runs(alone, 1);
  for (const int world : {2, 3}) {
    const Config c = divided("divided" + std::to_string(world));
    expect_runs(c, world);
    expect_same_run(c, alone);
  }
  Config control = divided("control");
  control.optim.lr *= 1.05;
  expect_runs(control, 2);
  EXPECT_FALSE(
      at::equal(parameters_of(control).front().tensor, parameters_of(alone).front().tensor));
}

/// In bf16 each segment makes copies of what is brought.
TEST_F(LayeredRanks, HaveTheBitsOfADividedOptimizerIfTheyDivideTheModel) {
  using models::Compute;
  for (const auto& [kind, compute] : {std::pair{ModelKind::gpt2, Compute::fp32},
                                      {ModelKind::llama, Compute::fp32},
                                      {ModelKind::gpt2, Compute::bf16}}) {
    const auto with_rounding = [&](Config c) {
      c.model.kind = kind;
      c.precision.compute = compute;
      c.precision.accumulate = accum::Accumulation::fp32;
      c.dist.shares = Shares::equal;  // speeds differ from run to run
      return c;
    };
    const std::string name = std::string(to_string(kind)) + "-" + std::string(to_string(compute));
    Config optimizer = with_rounding(layered("optimizer-" + name));
    optimizer.dist.shard = Shard::optimizer;
    const Config all = with_rounding(divided("all-" + name));
    expect_runs(optimizer, 2);
    expect_runs(all, 2);
    expect_same_run(all, optimizer);
  }
}

TEST_F(LayeredRanks, HaveTheResultOfOneProcessInFp64IfTheyDivideTheModel) {
  const auto in_double = [](Config c) {
    c.precision.compute = models::Compute::fp64;
    c.precision.accumulate = accum::Accumulation::fp32;
    return c;
  };
  const Config alone = in_double(standard("alone")), c = in_double(divided("divided"));
  expect_runs(alone, 1);
  expect_runs(c, 3);
  const NamedParameters expected = parameters_of(alone), parameters = parameters_of(c);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE((parameters[i].tensor - expected[i].tensor).abs().max().item<double>(),
              1e-12 * expected[i].tensor.abs().max().item<double>())
        << expected[i].name;
}

/// Trials take zeros in place of what other ranks keep, and leave this rank's part as it was.
TEST_F(LayeredRanks, PlanWithTheirPartOfADividedModel) {
  Config planned = divided("planned");
  planned.dist.shares = Shares::equal;
  planned.batch.micro.reset();
  expect_runs(planned, 3);
  Config stated = divided("stated");
  stated.batch.micro = steps_of(planned).front().at("micro_batch").get<std::int64_t>();
  expect_runs(stated, 3);
  expect_same_state(planned, stated);
}

/// In memory are a rank's part, and for a moment two segments' parameters and the sums that are not
/// final, in bf16 also the copies of one: the bound is computed from the shapes, with a page at
/// each end of a part.
TEST_F(LayeredRanks, KeepTheirPartOfADividedModelAndTwoSegments) {
  for (const auto compute : {models::Compute::fp32, models::Compute::bf16}) {
    SCOPED_TRACE(to_string(compute));
    const bool copies = compute == models::Compute::bf16;
    Config c = divided("run-" + std::string(to_string(compute)));
    c.model.layers = 6;
    c.precision.compute = compute;
    c.precision.accumulate = accum::Accumulation::fp32;
    expect_runs(c, 3);
    std::int64_t all = 0, block = 0, embedding = 0;
    for (const NamedParameter& parameter : parameters_of(c)) {
      const auto bytes = static_cast<std::int64_t>(parameter.tensor.nbytes());
      all += 2 * bytes;
      if (parameter.name.find(".h.0.") != std::string::npos) block += bytes;
      if (parameter.name.find("wte") != std::string::npos) embedding += bytes;
    }
    const std::int64_t small = all / 20;  // norms, biases and pages at the ends of parts
    const std::int64_t of_copies = copies ? std::max(block, embedding) / 2 : 0;
    const std::int64_t bound = all / 3 + 3 * block + 2 * embedding + of_copies + small;
    const std::int64_t most = most_bytes_of(c);
    EXPECT_LE(most, bound);
    EXPECT_GT(most, all / 3) << "control: it does keep its part";
    EXPECT_LT(bound, all) << "control: the bound is below the whole model";
  }
}

/// A window sends each part of the parameters twice and each sum once, however many micro-batches
/// it has.
TEST_F(LayeredRanks, SendTheSameBytesForAnyNumberOfMicroBatchesIfTheyDivideTheModel) {
  std::vector<std::int64_t> sent;
  for (const std::int64_t micro : {4, 1}) {
    Config c = divided("micro-" + std::to_string(micro));
    c.batch.micro = micro;
    expect_runs(c, 2);
    sent.push_back(steps_of(c).back().at("wire_bytes").get<std::int64_t>());
  }
  EXPECT_EQ(sent.at(0), sent.at(1));
}

TEST_F(LayeredRanks, ContinueWithAnotherDivision) {
  const Config whole = layered("whole");
  expect_runs(whole, 1);
  for (const bool begins_divided : {true, false}) {
    Config c = begins_divided ? divided("begins-divided") : layered("ends-divided");
    c.run.steps = 2;
    expect_runs(c, 2);
    expect_runs(c, 3,
                {"--resume", "--run.steps=3",
                 begins_divided ? "--dist.shard=optimizer" : "--dist.shard=all"});
    expect_same_state(c, whole);
  }
}

/// What this version does not divide is refused before the ranks meet, with what to state instead.
TEST_F(LayeredRanks, RefuseToDivideWhatThisVersionDoesNotDivide) {
  const Config c = divided("run");
  const std::vector<std::pair<std::string, std::string>> rows{
      {"--lora.rank=4", "rank = 0"},
      {"--model.freeze=[\"wte\"]", "freeze = []"},
      {offloaded(), "shard = \"none\""},
      {"--memory.accumulation=standard", "accumulation = \"layered\""}};
  for (const auto& [override, instead] : rows)
    for (const Program::Result& result : run(c, 2, {override})) {
      EXPECT_EQ(result.status, 2) << override;
      EXPECT_THAT(result.errors, ::testing::HasSubstr(instead)) << override;
    }
  EXPECT_FALSE(std::filesystem::exists(c.run.out)) << "control: nothing has begun";
}

/// A window of one sample: only the rank that has it finds that the first units are too small.
TEST_F(LayeredRanks, EnlargeTheUnitsOfFixedPointTogether) {
  const auto with_large_gradients = [](Config c) {
    c.loss.z_loss = 1e6;
    c.batch.tokens = c.model.context;
    c.batch.micro = 1;
    return c;
  };
  const Config alone = with_large_gradients(standard("alone"));
  expect_runs(alone, 1);
  for (const bool divides : {false, true}) {
    const Config c = with_large_gradients(divides ? divided("divided") : layered("layered"));
    expect_runs(c, 2);
    expect_same_state(c, alone);
  }
}

TEST_F(LayeredRanks, ContinueFromTheStateOfOffloadedRanks) {
  const Config whole = layered("whole");
  expect_runs(whole, 1);
  Config c = layered("run");
  c.run.steps = 2;
  expect_runs(c, 2, {offloaded()});
  expect_runs(c, 3, {"--resume", "--run.steps=3", offloaded()});
  expect_same_state(c, whole);
}

}  // namespace
}  // namespace accrue::train
