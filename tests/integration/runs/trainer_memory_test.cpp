// A run's memory: a budget that is kept, that may change during the run, and the part of it in a
// checkpoint.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/memory/caching_allocator.h"
#include "core/atomic_file.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kKibi = 1024;

/// Records steps and events, and does something after one of the steps.
class Watcher : public Observer {
 public:
  void on_step(const StepReport& report) override {
    steps.push_back(report);
    if (report.step == act_after) act();
    if (after_each) after_each(report.step);
  }
  void on_event(const Event& event) override { events.push_back(event); }

  std::vector<std::string> reasons_of(const std::string& name) const {
    std::vector<std::string> reasons;
    for (const Event& event : events)
      if (event.name == name) reasons.push_back(event.reason);
    return reasons;
  }

  std::int64_t act_after = -1;
  std::function<void()> act;
  std::function<void(std::int64_t step)> after_each;
  std::vector<StepReport> steps;
  std::vector<Event> events;
};

/// The value of memory.budget that a message names.
std::int64_t named_budget(const std::string& message) {
  constexpr std::string_view kBefore = "memory.budget = \"";
  const std::size_t at = message.find(kBefore);
  if (at == std::string::npos) return 0;
  const std::size_t begin = at + kBefore.size();
  return parse_bytes(message.substr(begin, message.find('"', begin) - begin), "message").count;
}

class TrainerMemory : public testing::TinyRun {
 protected:
  void SetUp() override {
    TinyRun::SetUp();
    memory::install_caching_allocator();
  }

  /// Micro-batches of 32 samples take several MiB more than single ones.
  Config large_config() const {
    Config c = config();
    c.model.width = 64;
    c.model.context = 64;
    c.batch.tokens = 32 * 64;
    c.batch.micro = 32;
    c.data.val_fraction = 0;
    return c;
  }

  void write_budget(const std::string& text) const {
    std::ofstream(folder_ / "budget.tmp") << text;
    std::filesystem::rename(folder_ / "budget.tmp", folder_ / "budget");
  }

  static RunResult run(const Config& c, const std::shared_ptr<Watcher>& watcher,
                       bool resume = false) {
    memory::release_cached();
    Trainer trainer(c);
    trainer.add_observer(watcher);
    return trainer.run({.resume = resume});
  }

  static std::vector<std::int64_t> steps_of_metrics(const Config& c) {
    std::vector<std::int64_t> steps;
    std::ifstream file(RunDirectory(c.run.out).metrics_file());
    for (std::string text; std::getline(file, text);) {
      const auto line = nlohmann::json::parse(text);
      if (line.contains("loss")) steps.push_back(line.at("step"));
    }
    return steps;
  }

  static std::int64_t peak_of(const Config& c) {
    const auto watcher = std::make_shared<Watcher>();
    run(c, watcher);
    std::int64_t peak = 0;
    for (const StepReport& step : watcher->steps) peak = std::max(peak, *step.peak_bytes);
    return peak;
  }
};

TEST_F(TrainerMemory, ABudgetTakenAwayDuringTheRunCostsRetriesAndNoStep) {
  Config c = large_config();
  c.run.out = (folder_ / "free").string();
  const std::int64_t peak = peak_of(c);
  c.run.out = (folder_ / "run").string();
  c.memory.budget_file = (folder_ / "budget").string();
  const auto watcher = std::make_shared<Watcher>();
  watcher->act_after = 2;
  watcher->act = [&] { write_budget(std::to_string(peak * 3 / 4) + " B"); };
  const RunResult result = run(c, watcher);
  EXPECT_EQ(result.step, 6);
  EXPECT_THAT(watcher->reasons_of("budget"),
              ::testing::ElementsAre(HasSubstr("budget is not there yet"), HasSubstr(" says \"")));
  const auto troubles = watcher->reasons_of("out_of_memory");
  ASSERT_EQ(troubles.size(), 1U) << "one line a window";
  EXPECT_THAT(troubles[0], HasSubstr("micro-batches of 32 samples ran out of memory (at least "));
  EXPECT_THAT(troubles[0], HasSubstr("from here on they have 16, and the batch stays"));
  EXPECT_GE(named_budget(troubles[0]), peak) << "it is enough";
  EXPECT_EQ(watcher->steps[1].retries, 0);
  EXPECT_FALSE(watcher->steps[1].budget_bytes);
  EXPECT_EQ(watcher->steps[2].retries, 2);
  EXPECT_EQ(watcher->steps[2].budget_bytes, peak * 3 / 4);
  EXPECT_EQ(watcher->steps[3].micro_batch, 16);
  for (std::size_t step = 3; step < 6; ++step)
    EXPECT_LE(*watcher->steps[step].peak_bytes, peak * 3 / 4);
  // The same batches in any split: only rounding differs.
  const NamedParameters free = parameters_of([&] {
    Config other = c;
    other.run.out = (folder_ / "free").string();
    return other;
  }());
  const NamedParameters tight = parameters_of(c);
  for (std::size_t i = 0; i < free.size(); ++i)
    EXPECT_TRUE(at::allclose(free[i].tensor, tight[i].tensor, 1e-3, 1e-5)) << free[i].name;
}

TEST_F(TrainerMemory, MicroBatchesGrowBackWithABudgetThatIsRaisedAgain) {
  Config c = large_config();
  c.run.out = (folder_ / "free").string();
  const std::int64_t peak = peak_of(c);
  c.run.out = (folder_ / "run").string();
  c.memory.budget_file = (folder_ / "budget").string();
  const auto watcher = std::make_shared<Watcher>();
  watcher->after_each = [&](std::int64_t step) {
    // Too little, a little more, enough.
    if (step == 1) write_budget(std::to_string(peak * 3 / 4) + " B");
    if (step == 3) write_budget(std::to_string(peak * 3 / 4 + 1000) + " B");
    if (step == 4) write_budget(std::to_string(2 * peak) + " B");
  };
  EXPECT_EQ(run(c, watcher).step, 6);
  std::vector<std::int64_t> sizes;
  for (const StepReport& step : watcher->steps) sizes.push_back(*step.micro_batch);
  EXPECT_THAT(sizes, ::testing::ElementsAre(32, 32, 16, 16, 32, 32));
  EXPECT_EQ(watcher->reasons_of("out_of_memory").size(), 1U);
  EXPECT_THAT(watcher->reasons_of("plan").back(), HasSubstr("micro-batches grow to 32 samples"));
}

TEST_F(TrainerMemory, ACheckpointKeepsTheSizeThatMemoryLeft) {
  Config c = large_config();
  c.run.checkpoint_every = {1, Duration::Unit::steps};
  c.memory.budget_file = (folder_ / "budget").string();
  const auto watcher = std::make_shared<Watcher>();
  watcher->act_after = 1;
  Config free = c;
  free.run.out = (folder_ / "free").string();
  const std::int64_t peak = peak_of(free);
  watcher->act = [&] { write_budget(std::to_string(peak * 3 / 4) + " B"); };
  run(c, watcher);
  const RunDirectory directory(c.run.out);
  const auto state =
      nlohmann::json::parse(read_file(directory.checkpoint(6) / "state.json")).at("plan");
  EXPECT_EQ(state.at("micro_batch"), 32);
  EXPECT_EQ(state.at("micro_batch_now"), 16);
  EXPECT_EQ(state.at("quiet_windows"), 4);
  EXPECT_EQ(state.at("recompute"), "none");
  // The continued run begins with that size.
  c.run.steps = 7;
  const auto later = std::make_shared<Watcher>();
  run(c, later, true);
  ASSERT_EQ(later->steps.size(), 1U);
  EXPECT_EQ(later->steps[0].micro_batch, 16);
  EXPECT_EQ(later->steps[0].retries, 0);
}

TEST_F(TrainerMemory, WhereNoSampleFitsTheRunIsRefusedWithTheMissingBytes) {
  Config c = large_config();
  const std::int64_t peak = peak_of([&] {
    Config free = c;
    free.run.out = (folder_ / "free").string();
    return free;
  }());
  c.memory.budget_file = (folder_ / "budget").string();
  const auto watcher = std::make_shared<Watcher>();
  watcher->act_after = 1;
  watcher->act = [&] { write_budget(std::to_string(peak / 40) + " B"); };
  try {
    run(c, watcher);
    FAIL() << "it went through";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 3);
    EXPECT_THAT(error.what(), HasSubstr("a single sample does not fit"));
    EXPECT_THAT(error.what(), HasSubstr("; try memory.budget = \""));
    EXPECT_THAT(error.what(), HasSubstr("memory.recompute = \"full\""));
    EXPECT_THAT(error.what(), HasSubstr("a shorter model.context"));
  }
  // The done steps are saved, and with more memory the run continues.
  write_budget("none");
  memory::set_budget(std::nullopt);
  EXPECT_EQ(run(c, std::make_shared<Watcher>(), true).step, 6);
}

TEST_F(TrainerMemory, ABudgetBelowParametersAndGradientsIsRefusedAtOnce) {
  Config c = large_config();
  for (const auto recompute : {std::optional<Recompute>(), std::optional(Recompute::none)}) {
    c.memory.budget = std::to_string(16 * kKibi) + " B";
    c.memory.recompute = recompute;
    try {
      run(c, std::make_shared<Watcher>());
      ADD_FAILURE() << "it went through";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 3) << error.what();
    }
    // The folder accepts the corrected run.
    memory::set_budget(std::nullopt);
    EXPECT_FALSE(RunDirectory(c.run.out).holds_run());
  }
}

/// Gradients that were folded into the optimizer's state cannot be removed: if an allocation fails
/// after part of a micro-batch was folded, the run goes back to the last checkpoint.
TEST_F(TrainerMemory, AFoldedWindowThatIsTornGoesBackToTheLastCheckpoint) {
  Config c = config("undisturbed");
  c.optim.kind = OptimizerKind::adama;
  c.optim.clip = 0;
  c.data.val_fraction = 0;
  c.run.checkpoint_every = {2, Duration::Unit::steps};
  const auto undisturbed = std::make_shared<Watcher>();
  std::int64_t before = 0;
  undisturbed->act_after = 3;
  undisturbed->act = [&] { before = memory::usage().allocations; };
  run(c, undisturbed);
  const std::int64_t allocations = memory::usage().allocations - before;
  std::int64_t went_back = 0;
  for (int trial = 0; trial < 12; ++trial) {
    Config other = c;
    other.run.out = (folder_ / ("torn" + std::to_string(trial))).string();
    const auto watcher = std::make_shared<Watcher>();
    std::optional<memory::FailingAllocations> failing;
    watcher->act_after = 3;
    watcher->act = [&] {
      if (!failing) failing.emplace(1 + (2 * trial + 1) * allocations / (3 * 24));
    };
    EXPECT_EQ(run(other, watcher).step, 6);
    EXPECT_EQ(failing->failed(), 1);
    went_back += std::ssize(watcher->reasons_of("rollback"));
    expect_same_bits(parameters_of(other), parameters_of(c));
    EXPECT_THAT(steps_of_metrics(other), ::testing::ElementsAre(1, 2, 3, 4, 5, 6));
  }
  EXPECT_GT(went_back, 0);
  EXPECT_LT(went_back, 12) << "where nothing was folded yet a retry is enough";
}

/// SGD's steps are the same for any split, so a micro-batch that fails twice is split.
TEST_F(TrainerMemory, FoldedSgdIsSplitWhereTheBudgetFalls) {
  Config c = large_config();
  c.optim.kind = OptimizerKind::sgd;
  c.optim.clip = 0;
  c.memory.gradients = GradientPlace::optimizer;
  c.run.checkpoint_every = {1, Duration::Unit::steps};
  Config free = c;
  free.run.out = (folder_ / "free").string();
  const std::int64_t peak = peak_of(free);
  c.memory.budget_file = (folder_ / "budget").string();
  const auto watcher = std::make_shared<Watcher>();
  watcher->act_after = 2;
  watcher->act = [&] { write_budget(std::to_string(peak * 3 / 4) + " B"); };
  EXPECT_EQ(run(c, watcher).step, 6);
  EXPECT_EQ(watcher->reasons_of("out_of_memory").size(), 1U);
  EXPECT_EQ(watcher->steps.back().micro_batch, 16);
  EXPECT_THAT(steps_of_metrics(c), ::testing::ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(TrainerMemory, TheStepAndItsMicroBatchesArePeaked) {
  Config c = large_config();
  c.batch.micro = 8;
  c.memory.budget = "1GiB";
  const auto watcher = std::make_shared<Watcher>();
  run(c, watcher);
  for (const StepReport& step : watcher->steps) {
    EXPECT_EQ(step.budget_bytes, std::int64_t{1} << 30);
    ASSERT_TRUE(step.micro_batch_peak_bytes);
    EXPECT_LE(*step.micro_batch_peak_bytes, *step.peak_bytes);
    EXPECT_GT(*step.micro_batch_peak_bytes, *step.peak_bytes / 2);
  }
}

/// Takes the budget away once the micro-batches of a step have run.
class LowersBudget : public Observer {
 public:
  LowersBudget(std::int64_t step, std::int64_t bytes) : step_(step), bytes_(bytes) {}
  void on_micro_batch(std::int64_t done, std::int64_t total) override {
    if (steps_ + 1 == step_ && done == total) memory::set_budget(bytes_);
  }
  void on_step(const StepReport& report) override { steps_ = report.step; }

 private:
  std::int64_t step_, bytes_, steps_ = 0;
};

TEST_F(TrainerMemory, APeakNearTheBudgetIsToldWithItsCause) {
  Config c = large_config();
  c.run.out = (folder_ / "free").string();
  const std::int64_t peak = peak_of(c);
  c.memory.budget = "1GiB";
  const auto told_with = [&](std::int64_t bytes) {
    c.run.out = (folder_ / std::to_string(bytes)).string();
    memory::release_cached();
    const auto watcher = std::make_shared<Watcher>();
    Trainer trainer(c);
    trainer.add_observer(watcher);
    trainer.add_observer(std::make_shared<LowersBudget>(3, bytes));
    trainer.run();
    return watcher->reasons_of("memory_near_budget");
  };
  const auto told = told_with(peak * 101 / 100);
  // A run that splits its micro-batches falls below the budget, and may come close to it again.
  ASSERT_FALSE(told.empty());
  EXPECT_THAT(told[0], HasSubstr("the budget itself is suspected, of which tensors had 1.00 GiB"));
  EXPECT_TRUE(told_with(2 * peak).empty());
}

}  // namespace
}  // namespace accrue::train
