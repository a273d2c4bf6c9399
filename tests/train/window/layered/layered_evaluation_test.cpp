#include "train/window/layered/layered_evaluation.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "data/fetch.h"
#include "train/window/layered/layered_fixture.h"

namespace accrue::train {
namespace {

using ::testing::ElementsAre;

/// Micro-batches of `sizes` samples of the text; an empty one for 0.
std::vector<batch::MicroBatch> micro_batches_of(const std::vector<std::int64_t>& sizes) {
  const testing::LayeredText source;
  std::vector<batch::MicroBatch> micro_batches;
  std::int64_t next = 0;
  for (const std::int64_t size : sizes) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(size));
    std::iota(indices.begin(), indices.end(), next);
    next += size;
    micro_batches.push_back(size == 0 ? batch::MicroBatch{.inputs = at::empty({0, 8}, at::kLong)}
                                      : data::fetch_as(source, indices, indices));
  }
  return micro_batches;
}

/// Losses and weights, in order.
std::vector<double> numbers_of(const std::vector<models::Evaluated>& evaluated) {
  std::vector<double> numbers;
  for (const models::Evaluated& micro : evaluated)
    for (const Loss& loss : micro.losses) {
      numbers.push_back(loss.sum.item<double>());
      numbers.push_back(loss.weight);
    }
  return numbers;
}

TEST(LayeredEvaluation, HasTheBitsOfMicroBatchesOneByOne) {
  const auto model = testing::tied_gpt2();
  const std::vector<batch::MicroBatch> micro_batches = micro_batches_of({3, 2, 0, 5});
  std::vector<models::Evaluated> one_by_one;
  for (const batch::MicroBatch& micro : micro_batches)
    one_by_one.push_back(models::evaluate_losses(*model, micro, batch::evaluation_context(micro)));
  for (const char* folder : {"", "."}) {
    ActivationStore store(folder);
    const auto together = evaluate_by_segments(*model, micro_batches, store, {});
    ASSERT_TRUE(together);
    EXPECT_EQ(numbers_of(*together), numbers_of(one_by_one)) << folder;
  }
  const std::vector<batch::MicroBatch> others = micro_batches_of({2, 3, 0, 5});
  ActivationStore store;
  EXPECT_NE(numbers_of(*evaluate_by_segments(*model, others, store, {})), numbers_of(one_by_one))
      << "control";
}

TEST(LayeredEvaluation, VisitsEachSegmentOnce) {
  const auto model = testing::tied_gpt2();
  ASSERT_EQ(model->segments().size(), 4);
  ActivationStore store;
  for (const auto& sizes : {std::vector<std::int64_t>{3, 2, 5}, std::vector<std::int64_t>{}}) {
    std::vector<std::size_t> visited;
    const auto evaluated = evaluate_by_segments(
        *model, micro_batches_of(sizes), store,
        {.before_segment = [&](std::size_t segment) { visited.push_back(segment); },
         .cancelled = {}});
    EXPECT_THAT(visited, ElementsAre(0, 1, 2, 3));
    EXPECT_EQ(evaluated->size(), sizes.size());
  }
}

TEST(LayeredEvaluation, EndsBetweenTwoPassesIfItIsCancelled) {
  const auto model = testing::tied_gpt2();
  ActivationStore store;
  int passes = 0;
  EXPECT_FALSE(
      evaluate_by_segments(*model, micro_batches_of({3, 2}), store,
                           {.before_segment = {}, .cancelled = [&] { return ++passes == 4; }}));
  EXPECT_EQ(passes, 4);
}

}  // namespace
}  // namespace accrue::train
