#include "core/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "support/refused_calls.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

TEST(WriteFileAtomically, ReplacesTheWholeContentAndLeavesNoTemporary) {
  const fs::path folder = fs::path(::testing::TempDir()) / "atomic_file_test";
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
  const fs::path folder = fs::path(::testing::TempDir()) / "atomic_file_stream_test";
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

class AtomicFileBeside : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(::testing::TempDir()) / ("atomic_file_beside_test_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name) << content;
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.insert(entry.path().filename());
    return found;
  }

  fs::path folder_;
};

TEST_F(AtomicFileBeside, LeavesTheUsersFilesWithNamesLikeATemporarysAlone) {
  const std::string mine = "a.partial-" + std::to_string(::getpid()) + "-0";
  put("a.partial", "the user's");
  put(mine, "the user's, too");
  write_file_atomically(folder_ / "a", "new");
  { AtomicFile(folder_ / "a").write("given up"); }
  EXPECT_EQ(names(), (std::set<std::string>{"a", "a.partial", mine}));
  EXPECT_EQ(read_file(folder_ / "a"), "new");
  EXPECT_EQ(read_file(folder_ / "a.partial"), "the user's");
  EXPECT_EQ(read_file(folder_ / mine), "the user's, too");
}

TEST(IsTemporaryOf, KnowsItsOwnNamesAlone) {
  EXPECT_TRUE(is_temporary_of("f/a.partial-12-0", "f/a"));
  for (const char* other :
       {"f/a", "f/a.partial", "f/a.partial-x", "f/b.partial-12-0", "a.partial-1-0"})
    EXPECT_FALSE(is_temporary_of(other, "f/a")) << other;
}

TEST_F(AtomicFileBeside, WritesThroughNoLink) {
  fs::create_directory(folder_ / "far");
  put("far/target", "old");
  fs::create_symlink("far/target", folder_ / "link");
  fs::create_symlink("far/later", folder_ / "dangling");
  for (const char* name : {"link", "dangling"}) try {
      write_file_atomically(folder_ / name, "new");
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::usage);
      EXPECT_NE(error.received().find("a link to far/"), std::string::npos) << error.what();
    }
  EXPECT_EQ(read_file(folder_ / "far/target"), "old");
  EXPECT_FALSE(fs::exists(folder_ / "far/later"));
}

TEST_F(AtomicFileBeside, LeavesTheOtherNamesOfAFileTheirContent) {
  put("file", "old");
  fs::create_hard_link(folder_ / "file", folder_ / "copy");
  write_file_atomically(folder_ / "file", "new");
  EXPECT_EQ(read_file(folder_ / "copy"), "old");
  EXPECT_EQ(read_file(folder_ / "file"), "new");
}

/// A link that is created there while the file is written is replaced, and not followed.
TEST_F(AtomicFileBeside, FollowsNoLinkThatComesMeanwhile) {
  put("target", "old");
  AtomicFile file(folder_ / "a");
  file.write("new");
  fs::create_symlink("target", folder_ / "a");
  file.commit();
  EXPECT_EQ(read_file(folder_ / "target"), "old");
  EXPECT_EQ(read_file(folder_ / "a"), "new");
}

TEST_F(AtomicFileBeside, RefusesFoldersAndPipesAndLeavesThem) {
  fs::create_directory(folder_ / "folder");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0644), 0);
  fs::create_symlink("pipe", folder_ / "link");
  for (const char* name : {"folder", "pipe", "link"}) {
    try {
      write_file_atomically(folder_ / name, "x");
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::usage) << error.what();
    }
  }
  EXPECT_TRUE(fs::is_directory(folder_ / "folder"));
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  EXPECT_EQ(names().size(), 3U);
}

TEST_F(AtomicFileBeside, LeavesNothingWhereItsProcessIsKilled) {
  if (const int probe = ::open(folder_.c_str(), O_WRONLY | O_TMPFILE, 0644); probe >= 0)
    ::close(probe);
  else
    return;  // This file system has no unnamed files: they would have names here.
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(folder_ / "a");
    file.write("half of");
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(names(), std::set<std::string>{});
}

/// A child's exit status: whether its body threw nothing.
constexpr int kDone = 0, kThrew = 1;

/// Runs `body` in a process that is refused these system calls.
template <class Body>
int where_refused(const std::vector<unsigned>& calls, const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      if (!accrue::testing::refuse_system_calls(calls))
        throw std::runtime_error("the system has no filters of system calls");
      body();
      ::_exit(kDone);
    } catch (const std::exception& error) {
      std::ofstream("/proc/self/fd/2") << error.what() << "\n";
      ::_exit(kThrew);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(AtomicFileBeside, CopiesWhatMayNotBeGivenAName) {
  put("there", "old");
  const std::string large(3'000'000, 'x');
  ASSERT_EQ(where_refused({__NR_linkat},
                          [&] {
                            write_file_atomically(folder_ / "new", large);
                            write_file_atomically(folder_ / "empty", "");
                            write_file_atomically(folder_ / "there", "new");
                          }),
            kDone);
  EXPECT_EQ(read_file(folder_ / "new"), large);
  EXPECT_EQ(read_file(folder_ / "empty"), "");
  EXPECT_EQ(read_file(folder_ / "there"), "new");
  EXPECT_EQ(names(), (std::set<std::string>{"new", "empty", "there"}));
}

TEST_F(AtomicFileBeside, LeavesTheFileThatIsThereWhereLinksAreRefused) {
  put("there", "old");
  std::vector<unsigned> links{__NR_linkat};
#ifdef __NR_link
  links.push_back(__NR_link);
#endif
  ASSERT_EQ(where_refused(links,
                          [&] {
                            for (const char* name : {"new", "there"}) {
                              AtomicFile file(folder_ / name);
                              file.write("new");
                              file.commit_unless_there();
                            }
                          }),
            kDone);
  EXPECT_EQ(read_file(folder_ / "new"), "new");
  EXPECT_EQ(read_file(folder_ / "there"), "old");
  EXPECT_EQ(names(), (std::set<std::string>{"new", "there"}));
}

TEST_F(AtomicFileBeside, NamesWhatTheSystemRefusesAndNotTheRoomForIt) {
  EXPECT_EQ(
      where_refused({__NR_fsync},
                    [&] {
                      try {
                        write_file_atomically(folder_ / "a", "x");
                      } catch (const Error& error) {
                        const std::string text = error.what();
                        if (text.find("seccomp") != text.npos && text.find("room") == text.npos)
                          return;
                        throw;
                      }
                      throw std::runtime_error("nothing was refused");
                    }),
      kDone);
  EXPECT_EQ(names(), std::set<std::string>{});
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
