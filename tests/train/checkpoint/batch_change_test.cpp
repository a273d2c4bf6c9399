#include "train/checkpoint/batch_change.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace accrue::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Changes = std::vector<BatchChange>;

constexpr std::int64_t size_at_start = 7;

TEST(BatchChanges, TheLastOneIsTheBatch) {
  EXPECT_EQ(batch_after({}, size_at_start), 7);
  EXPECT_EQ(batch_after({{.window = 3, .size = 12}, {.window = 5, .size = 9}}, size_at_start), 9);
}

TEST(BatchChanges, AChangeByHandGivesUpThoseFromItsWindowOn) {
  const Changes changes{{.window = 3, .size = 12}, {.window = 5, .size = 9}};
  EXPECT_THAT(
      changed_by_hand(changes, {.window = 5, .size = 8}, size_at_start),
      ElementsAre(BatchChange{.window = 3, .size = 12}, BatchChange{.window = 5, .size = 8}));
  EXPECT_THAT(changed_by_hand(changes, {.window = 4, .size = 12}, size_at_start),
              ElementsAre(BatchChange{.window = 3, .size = 12}));
  EXPECT_THAT(changed_by_hand(changes, {.window = 3, .size = size_at_start}, size_at_start),
              IsEmpty());
}

TEST(BatchChanges, OfACheckpointFromBeforeTheChangeAreThoseOfTheRun) {
  const Changes recorded{{.window = 3, .size = 12}};
  EXPECT_EQ(changes_to_go_on_with({}, recorded, 2), recorded);
  EXPECT_EQ(changes_to_go_on_with({}, recorded, 3), recorded);
  EXPECT_EQ(changes_to_go_on_with(recorded, recorded, 4), recorded);
}

/// The run went back to step 3 and took another batch, and was killed before its next checkpoint:
/// the newest checkpoint is still one of the former steps.
TEST(BatchChanges, OfWindowsThatAreDoneAreThoseOfTheCheckpoint) {
  const Changes done{{.window = 3, .size = 12}};
  EXPECT_EQ(changes_to_go_on_with(done, {{.window = 3, .size = 9}}, 5), done);
  EXPECT_EQ(changes_to_go_on_with(done, {}, 5), done);
}

TEST(BatchChanges, ThatWereGivenUpAheadOfACheckpointAreNotMade) {
  EXPECT_THAT(changes_to_go_on_with({{.window = 3, .size = 12}}, {}, 2), IsEmpty());
}

TEST(BatchChanges, AreReadBackAsTheyWereWritten) {
  const Changes changes{{.window = 0, .size = 12}, {.window = 5, .size = 9}};
  EXPECT_EQ(batch_changes_from_json(batch_changes_to_json(changes)), changes);
  const nlohmann::json none = {{"window", 1}, {"size", 0}};
  EXPECT_THROW(batch_changes_from_json(nlohmann::json::array({none})), nlohmann::json::exception);
}

}  // namespace
}  // namespace accrue::train
