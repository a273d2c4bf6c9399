#include "train/run/window_outcome.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace accrue::train {
namespace {

FailedAttempt failed(bool is_out_of_memory, bool is_torn) {
  return {std::make_exception_ptr(std::runtime_error("a test")), is_out_of_memory, is_torn};
}

TEST(WindowOutcome, DecidesWithoutRetriesForEachEndOfAnAttempt) {
  for (const bool may_restart : {false, true}) {
    EXPECT_EQ(next_attempt(Filled::whole, may_restart), NextAttempt::none);
    EXPECT_EQ(next_attempt(Filled::interrupted, may_restart), NextAttempt::none);
    EXPECT_EQ(next_attempt(Filled::again, may_restart), NextAttempt::fill_again);
    EXPECT_EQ(next_attempt(Filled::goes_on, may_restart), NextAttempt::fill_rest);
  }
}

TEST(WindowOutcome, RestartsOnlyIfMemoryRanOutAndNothingReachedTheOptimizer) {
  for (const bool is_out_of_memory : {false, true})
    for (const bool is_torn : {false, true})
      for (const bool may_restart : {false, true}) {
        const bool restarts = is_out_of_memory && !is_torn && may_restart;
        EXPECT_EQ(next_attempt(failed(is_out_of_memory, is_torn), may_restart),
                  restarts ? NextAttempt::restart : NextAttempt::fail)
            << is_out_of_memory << is_torn << may_restart;
      }
}

}  // namespace
}  // namespace accrue::train
