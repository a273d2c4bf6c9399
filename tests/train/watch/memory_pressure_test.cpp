#include "train/watch/memory_pressure.h"

#include <gmock/gmock.h>

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t budget_of_test = 1000 << 20;

/// A step whose tensors take `mebibytes` at once, of which all but 300 are activations.
StepReport step_of(std::int64_t step, std::int64_t mebibytes) {
  StepReport report{.step = step, .peak_bytes = mebibytes << 20};
  report.memory = MemoryByKind{.parameters = 100 << 20,
                               .gradients = 100 << 20,
                               .optimizer = 100 << 20,
                               .activations = (mebibytes - 300) << 20};
  return report;
}

TEST(MemoryPressure, IsNoneWhereAPlanKeepsItsMargin) {
  MemoryPressure pressure;
  for (const std::int64_t mebibytes : {500, 940, 969})
    EXPECT_FALSE(pressure.observe(step_of(1, mebibytes), budget_of_test)) << mebibytes;
  EXPECT_FALSE(pressure.observe(step_of(2, 999), std::nullopt)) << "there is no budget";
  StepReport unmetered = step_of(3, 999);
  unmetered.memory.reset();
  EXPECT_FALSE(pressure.observe(unmetered, budget_of_test));
}

TEST(MemoryPressure, IsToldOnceUntilItIsOver) {
  MemoryPressure pressure;
  EXPECT_FALSE(pressure.observe(step_of(1, 900), budget_of_test));
  EXPECT_TRUE(pressure.observe(step_of(2, 990), budget_of_test));
  EXPECT_FALSE(pressure.observe(step_of(3, 995), budget_of_test));
  EXPECT_FALSE(pressure.observe(step_of(4, 950), budget_of_test));
  EXPECT_FALSE(pressure.observe(step_of(5, 990), budget_of_test));
  EXPECT_FALSE(pressure.observe(step_of(6, 900), budget_of_test));
  EXPECT_TRUE(pressure.observe(step_of(7, 990), budget_of_test));
}

TEST(MemoryPressure, IsOfWhatGrew) {
  MemoryPressure activations;
  activations.observe(step_of(4, 900), budget_of_test);
  EXPECT_THAT(
      *activations.observe(step_of(9, 990), budget_of_test),
      AllOf(HasSubstr("tensors took 990 MiB at once, which leaves 10.0 MiB of the 0.98 GiB"),
            HasSubstr("what grew since step 4 is suspected: activations"),
            HasSubstr("by 90.0 MiB")));
  MemoryPressure optimizer;
  optimizer.observe(step_of(1, 900), budget_of_test);
  StepReport grown = step_of(2, 990);
  grown.memory->optimizer += 90 << 20;
  grown.memory->activations -= 90 << 20;
  EXPECT_THAT(*optimizer.observe(grown, budget_of_test),
              HasSubstr("the optimizer's state, by 90.0 MiB"));
}

TEST(MemoryPressure, IsOfABudgetThatShrank) {
  MemoryPressure pressure;
  pressure.observe(step_of(1, 900), budget_of_test);
  EXPECT_THAT(*pressure.observe(step_of(2, 900), 905 << 20),
              HasSubstr("the budget itself is suspected, of which tensors had 0.98 GiB in step 1"));
}

TEST(MemoryPressure, IsOfTheMicroBatchWhereNothingChanged) {
  MemoryPressure pressure;
  EXPECT_THAT(*pressure.observe(step_of(1, 990), budget_of_test),
              HasSubstr("the micro-batch is suspected"));
}

}  // namespace
}  // namespace accrue::train
