#include "accrue/core/atomic_file.h"

#include <gtest/gtest.h>

#include "accrue/core/error.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

TEST(WriteFileAtomically, ReplacesTheWholeContentAndLeavesNoTemporary) {
  const fs::path folder = fs::path(testing::TempDir()) / "atomic_file_test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  write_file_atomically(folder / "a", "long first content");
  write_file_atomically(folder / "a", "short");
  EXPECT_EQ(read_file(folder / "a"), "short");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

TEST(WriteFileAtomically, NamesThePlaceThatCannotBeWritten) {
  EXPECT_THROW(write_file_atomically("/proc/accrue-cannot-write-here", "x"), Error);
}

TEST(AtomicFile, KeepsTheOldContentUntilCommitAndRemovesAnAbandonedTemporary) {
  const fs::path folder = fs::path(testing::TempDir()) / "atomic_file_stream_test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  write_file_atomically(folder / "a", "old");
  {
    AtomicFile abandoned(folder / "a");
    abandoned.write("half of");
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
  AtomicFile file(folder / "a");
  file.write("in ");
  file.write("parts");
  EXPECT_EQ(read_file(folder / "a"), "old");
  file.commit();
  EXPECT_EQ(read_file(folder / "a"), "in parts");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

TEST(ReadFile, NamesTheMissingFile) {
  try {
    read_file("/nowhere/at/all");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_NE(std::string(error.what()).find("/nowhere/at/all"), std::string::npos);
  }
}

}  // namespace
}  // namespace accrue
