#include "distributed/group/network/run_until.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace accrue::distributed {
namespace {

using namespace std::chrono_literals;

TEST(RunUntil, GivesWhatTheCallReturnsOrThrows) {
  EXPECT_EQ(run_until(from_now(1min), [] { return std::string("answer"); }), "answer");
  EXPECT_THROW(run_until(from_now(1min), []() -> int { throw std::out_of_range("call"); }),
               std::out_of_range);
}

TEST(RunUntil, LeavesACallThatDoesNotComeBackToItself) {
  const auto gate = std::make_shared<std::promise<void>>();
  const auto passed = std::make_shared<std::promise<void>>();
  EXPECT_THROW(run_until(from_now(10ms),
                         [gate, passed] {
                           gate->get_future().wait();
                           passed->set_value();
                         }),
               DeadlineExceeded);
  // It continued, and its objects still exist.
  gate->set_value();
  passed->get_future().wait();
}

}  // namespace
}  // namespace accrue::distributed
