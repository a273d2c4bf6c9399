#include "train/limits/rest_account.h"

#include <gtest/gtest.h>

namespace accrue::train {
namespace {

TEST(RestAccount, OwesAsMuchAsMakesTheSpeed) {
  RestAccount account;
  account.work(3, 0.5);
  EXPECT_DOUBLE_EQ(account.owed(), 3);
  account.work(1, 0.25);
  EXPECT_DOUBLE_EQ(account.owed(), 6);
  account.work(10, 1);
  EXPECT_DOUBLE_EQ(account.owed(), 6);
  account.rest(4);
  EXPECT_DOUBLE_EQ(account.owed(), 2);
  account.rest(5);
  EXPECT_DOUBLE_EQ(account.owed(), 0) << "what was rested too long is not saved up";
}

TEST(RestAccount, RestsNoLongerThanOthersWait) {
  RestAccount account;
  account.bound(5);
  account.work(3, 0.5);
  account.rest(3);
  account.work(3, 0.5);
  EXPECT_DOUBLE_EQ(account.owed(), 2);
  account.rest(2);
  account.work(100, 0.5);
  EXPECT_DOUBLE_EQ(account.owed(), 0);
  account.settle();
  account.work(4, 0.5);
  EXPECT_DOUBLE_EQ(account.owed(), 4);
}

TEST(RestAccount, OwesNothingOnceTheLimitIsOver) {
  RestAccount account;
  account.work(3, 0.5);
  account.forgive();
  EXPECT_EQ(account.owed(), 0);
}

}  // namespace
}  // namespace accrue::train
