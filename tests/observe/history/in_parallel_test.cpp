#include "observe/history/in_parallel.h"

#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace accrue::observe {
namespace {

TEST(InParallel, DoesEachOnce) {
  std::vector<std::atomic<int>> times(1000);
  in_parallel(times.size(), [&](std::size_t i) { ++times[i]; });
  for (const auto& time : times) EXPECT_EQ(time, 1);
  in_parallel(0, [](std::size_t) { FAIL(); });
}

TEST(InParallel, ThrowsWhatACallThrew) {
  EXPECT_THROW(in_parallel(100,
                           [](std::size_t i) {
                             if (i == 57) throw std::runtime_error("57");
                           }),
               std::runtime_error);
}

}  // namespace
}  // namespace accrue::observe
