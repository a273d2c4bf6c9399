#include "train/run/window_outcome.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace accrue::train {
namespace {

outcome::Failed failed(bool is_out_of_memory, bool is_torn) {
  return {std::make_exception_ptr(std::runtime_error("a test")), is_out_of_memory, is_torn};
}

TEST(WindowOutcome, DecidesWithoutRetriesForEachEndOfAnAttempt) {
  for (const bool may_restart : {false, true}) {
    EXPECT_EQ(next_attempt(outcome::Whole{}, may_restart), NextAttempt::none);
    EXPECT_EQ(next_attempt(outcome::Interrupted{}, may_restart), NextAttempt::none);
    EXPECT_EQ(next_attempt(outcome::FillAgain{}, may_restart), NextAttempt::fill_again);
    EXPECT_EQ(next_attempt(outcome::ClosedEarly{}, may_restart), NextAttempt::fill_rest);
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
