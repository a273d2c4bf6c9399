#include "cli/process/exit_status.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace accrue::cli {
namespace {

TEST(ExitStatus, OfAnErrorIsThatOfItsKind) {
  const auto status_of = [](Error::Kind kind) {
    return exit_status_of_failure(Error(kind, "open data", "a file", "none", ""), false);
  };
  EXPECT_EQ(status_of(Error::Kind::usage), 2);
  EXPECT_EQ(status_of(Error::Kind::refused), 3);
  EXPECT_EQ(status_of(Error::Kind::runtime), 1);
}

TEST(ExitStatus, OfMemoryThatRanOutDependsOnTheBudget) {
  const c10::OutOfMemoryError beyond(c10::SourceLocation{"allocate", "allocator.cpp", 1},
                                     "of 1 GiB");
  EXPECT_EQ(exit_status_of_failure(beyond, true), 3);
  EXPECT_EQ(exit_status_of_failure(beyond, false), 1);
  EXPECT_EQ(exit_status_of_failure(std::bad_alloc(), true), 1) << "no budget refuses the heap";
}

TEST(ExitStatus, OfOtherExceptionsIsOne) {
  const c10::Error of_torch(c10::SourceLocation{"add", "add.cpp", 1}, "sizes differ");
  EXPECT_EQ(exit_status_of_failure(of_torch, true), 1);
  EXPECT_EQ(exit_status_of_failure(std::runtime_error("a cause"), true), 1);
}

TEST(ExitStatus, OfACheckIsZeroOrThatOfTheKind) {
  EXPECT_EQ(exit_status_of_check(true, Error::Kind::refused), 0);
  EXPECT_EQ(exit_status_of_check(false, Error::Kind::refused), 3);
  EXPECT_EQ(exit_status_of_check(false, Error::Kind::runtime), 1);
}

}  // namespace
}  // namespace accrue::cli
