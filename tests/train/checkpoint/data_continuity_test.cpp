#include "train/checkpoint/data_continuity.h"

#include <gmock/gmock.h>

#include "support/errors.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const DataIdentity started{.fingerprint = "text: 1 files, hash a", .samples = 10, .checked = true};

TEST(DataContinuity, UnchangedDataGoOn) {
  for (const bool accept : {false, true})
    EXPECT_EQ(check_continuity(started, started, accept), DataChange::none);
}

TEST(DataContinuity, ChangedDataAreAcceptedByNameAlone) {
  DataIdentity now = started;
  now.fingerprint = "text: 1 files, hash b";
  EXPECT_THAT(usage_message([&] { check_continuity(started, now, false); }),
              AllOf(HasSubstr("hash a"), HasSubstr("hash b"), HasSubstr("--accept-data")));
  EXPECT_EQ(check_continuity(started, now, true), DataChange::accepted);
}

TEST(DataContinuity, AnotherNumberOfSamplesIsNeverAccepted) {
  DataIdentity now{.fingerprint = "text: 1 files, hash b", .samples = 11};
  EXPECT_THAT(usage_message([&] { check_continuity(started, now, true); }),
              AllOf(HasSubstr("10 training samples"), HasSubstr("11 training samples")));
  now = {.fingerprint = "text: 1 files, hash b", .samples = 10, .held_out = 3};
  EXPECT_THAT(usage_message([&] { check_continuity(started, now, true); }),
              AllOf(HasSubstr("0 held out"), HasSubstr("3 held out")));
  now.samples = 0;
  const DataIdentity old{.fingerprint = "text: 1 files, hash a"};
  EXPECT_THAT(
      usage_message([&] { check_continuity(old, {.fingerprint = "b", .samples = 10}, true); }),
      HasSubstr("a checkpoint that states"));
}

/// This holds for any files: an automatic size could change with a file that is left out.
TEST(DataContinuity, ImagesKeepTheirShape) {
  DataIdentity before = started, now = started;
  before.image = {3, 32, 32};
  now.image = {3, 64, 64};
  EXPECT_THAT(
      usage_message([&] { check_continuity(before, now, true); }),
      AllOf(HasSubstr("3 x 32 x 32"), HasSubstr("3 x 64 x 64"), HasSubstr("--data.image=[32,32]")));
  now.image = {1, 32, 32};
  EXPECT_THAT(usage_message([&] { check_continuity(before, now, true); }), HasSubstr("colours"));
  now.image = before.image;
  EXPECT_EQ(check_continuity(before, now, false), DataChange::none);
  before.image = {};
  EXPECT_EQ(check_continuity(before, now, false), DataChange::none) << "not known";
}

}  // namespace
}  // namespace accrue::train
