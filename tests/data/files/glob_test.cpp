#include "data/files/glob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "accrue/core/error.h"
#include "data/files/glob_parts.h"
#include "data/folder.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;

class Glob : public ::testing::Test {
 protected:
  Glob() {
    for (const char* name : {"a.txt", "b.txt", "b.py", "z/c.txt", "z/y/d.txt", "z/y/x/e.txt",
                             ".hidden.txt", ".git/f.txt", "b-2/g.txt", "odd[1].txt"})
      folder_.write(name, "x");
  }

  // Matches relative to the folder, in the order given.
  std::vector<std::string> expand(const std::vector<std::string>& globs) const {
    std::vector<std::string> absolute, found;
    for (const std::string& glob : globs) absolute.push_back(folder_.path(glob));
    for (const fs::path& path : expand_globs(absolute, "data.train"))
      found.push_back(path.lexically_relative(folder_.root()).string());
    return found;
  }

  Folder folder_;
};

TEST_F(Glob, MatchesWithinAFolder) {
  EXPECT_THAT(expand({"*.py"}), ElementsAre("b.py"));
  EXPECT_THAT(expand({"?.txt"}), ElementsAre("a.txt", "b.txt"));
  EXPECT_THAT(expand({"[a].*"}), ElementsAre("a.txt"));
  EXPECT_THAT(expand({"*/*.txt"}), ElementsAre("b-2/g.txt", "z/c.txt"));
  EXPECT_THAT(expand({"z/./y/d.txt"}), ElementsAre("z/y/d.txt"));
}

TEST_F(Glob, CrossesFoldersWithTwoStars) {
  const auto all = ElementsAre("a.txt", "b-2/g.txt", "b.txt", "odd[1].txt", "z/c.txt", "z/y/d.txt",
                               "z/y/x/e.txt");
  EXPECT_THAT(expand({"**/*.txt"}), all);
  EXPECT_THAT(expand({"**/**/*.txt"}), all);
  EXPECT_THAT(expand({"z/**/?.txt"}), ElementsAre("z/c.txt", "z/y/d.txt", "z/y/x/e.txt"));
  EXPECT_THAT(expand({"z/**"}), ElementsAre("z/c.txt", "z/y/d.txt", "z/y/x/e.txt"));
  EXPECT_THAT(expand({"**/y/**/e.txt"}), ElementsAre("z/y/x/e.txt"));
}

TEST_F(Glob, KnowsWhatItWouldMatch) {
  const std::vector<std::string> files{"a.txt",       "b.txt",      "b.py",
                                       "z/c.txt",     "z/y/d.txt",  "z/y/x/e.txt",
                                       ".hidden.txt", ".git/f.txt", "b-2/g.txt"};
  for (const char* glob : {"**", "*", "*.py", "?.txt", "*/*.txt", "**/*.txt", "**/**/*.txt", "z/**",
                           "z/./y/d.txt", "z/**/?.txt", "**/y/**/e.txt", ".h*", ".git/*", "b-[2]/*",
                           "**/.git/*", "b\\-2/*", "./**/y/*"}) {
    const std::vector<std::string> found = expand({glob});
    for (const std::string& file : files)
      EXPECT_EQ(would_match(folder_.path(glob), folder_.path(file)),
                std::find(found.begin(), found.end(), file) != found.end())
          << glob << " and " << file;
  }
  // Of files that do not exist yet, in folders that do not.
  EXPECT_TRUE(would_match(folder_.path("z/**"), folder_.path("z/new/train.bin")));
  EXPECT_TRUE(would_match(folder_.path("z/**"), folder_.path("b-2/../z/train.bin")));
  EXPECT_FALSE(would_match(folder_.path("z/**"), folder_.path("train.bin")));
  EXPECT_FALSE(would_match(folder_.path("z/*"), folder_.path("z/new/train.bin")));
  EXPECT_FALSE(would_match(folder_.path("z/**"), folder_.path("z/.new/train.bin")));
}

TEST_F(Glob, LeavesHiddenNamesOutUnlessAskedFor) {
  EXPECT_THAT(expand({".h*"}), ElementsAre(".hidden.txt"));
  EXPECT_THAT(expand({".git/*"}), ElementsAre(".git/f.txt"));
}

TEST_F(Glob, TakesTheNameOfAFileAsItIs) {
  EXPECT_THAT(expand({"odd[1].txt"}), ElementsAre("odd[1].txt"));
}

TEST_F(Glob, SortsByBytesOverAllGlobsAndTakesEachFileOnce) {
  EXPECT_THAT(expand({"z/*.txt", "b*", "*.txt"}),
              ElementsAre("a.txt", "b.py", "b.txt", "odd[1].txt", "z/c.txt"));
  fs::create_symlink(folder_.path("b.txt"), folder_.path("c.txt"));
  EXPECT_THAT(expand({"[bc].txt"}), ElementsAre("b.txt"));
  EXPECT_THAT(expand({"c.txt"}), ElementsAre("c.txt"));
}

TEST_F(Glob, FollowsLinksToFoldersOnce) {
  fs::create_directory_symlink("..", folder_.path("z/up"));
  fs::create_directory_symlink("y", folder_.path("z/a"));
  fs::create_directory_symlink("../..", folder_.path("z/y/round"));
  EXPECT_THAT(expand({"z/up/*.py"}), ElementsAre("z/up/b.py"));
  EXPECT_THAT(expand({"**/*.txt"}), ElementsAre("a.txt", "b-2/g.txt", "b.txt", "odd[1].txt",
                                                "z/c.txt", "z/y/d.txt", "z/y/x/e.txt"))
      << "those that lead back up or beside, the names without a link";
  const Folder elsewhere;
  elsewhere.write("p.txt", "x");
  elsewhere.write("deep/q.txt", "x");
  fs::create_directory_symlink(elsewhere.root(), folder_.path("z/y/far"));
  EXPECT_THAT(expand({"z/y/**/*.txt"}),
              ElementsAre("z/y/d.txt", "z/y/far/deep/q.txt", "z/y/far/p.txt", "z/y/round/a.txt",
                          "z/y/round/b-2/g.txt", "z/y/round/b.txt", "z/y/round/odd[1].txt",
                          "z/y/round/z/c.txt", "z/y/x/e.txt"));
}

/// Each level has two names, so paths double with each.
TEST_F(Glob, WalksFoldersOfManyNamesOnce) {
  std::string level = "many";
  for (int i = 0; i < 40; ++i) {
    folder_.write(level + "/next/" + std::to_string(i) + ".txt", "x");
    fs::create_directory_symlink("next", folder_.path(level + "/same"));
    level += "/next";
  }
  EXPECT_EQ(expand({"many/**/*.txt"}).size(), 40U);
}

TEST_F(Glob, TakesOnlyRegularFiles) {
  EXPECT_THAT(expand({"[bz]*"}), ElementsAre("b.py", "b.txt"));
}

std::string refusal(const std::vector<std::string>& globs) {
  try {
    expand_globs(globs, "data.val");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_EQ(error.operation(), "data.val");
    return error.what();
  }
  ADD_FAILURE() << "something matched";
  return "";
}

TEST_F(Glob, NamesWhatMatchesNothingAndWhereItLooked) {
  const std::string message = refusal({"no/such/*.txt", folder_.path("*.txt"), "nor/this"});
  EXPECT_THAT(message, HasSubstr("'no/such/*.txt', 'nor/this'"));
  EXPECT_THAT(message, HasSubstr(fs::current_path().string()));
  EXPECT_THAT(refusal({}), HasSubstr("none"));
  EXPECT_THAT(refusal({""}), HasSubstr("''"));
}

/// Their target may be a disk that is not mounted, with a part of the data.
TEST_F(Glob, RefusesLinksToNothingByName) {
  const auto refused = [&](const std::string& glob) { return refusal({folder_.path(glob)}); };
  fs::create_symlink("nowhere.txt", folder_.path("z/broken.txt"));
  for (const char* glob : {"z/*.txt", "z/**", "**/*.py", "z/broken.txt"})
    EXPECT_THAT(refused(glob),
                HasSubstr("z/broken.txt: a link to nowhere.txt, which does not exist"))
        << glob;
  EXPECT_THAT(expand({"z/y/**", "*.py"}), ElementsAre("b.py", "z/y/d.txt", "z/y/x/e.txt"))
      << "no business of theirs";
  fs::remove(folder_.path("z/broken.txt"));
  fs::create_symlink("self", folder_.path("z/self"));
  EXPECT_THAT(refused("z/*"), HasSubstr("z/self: a link to self"));
  fs::remove(folder_.path("z/self"));
  fs::create_directory_symlink("/mnt/nowhere", folder_.path("shard"));
  EXPECT_THAT(refused("s*/*.txt"), HasSubstr("shard: a link to /mnt/nowhere"));
  fs::remove(folder_.path("shard"));
  fs::create_symlink("nowhere", folder_.path("z/.hidden"));
  EXPECT_THAT(expand({"z/**"}), ElementsAre("z/c.txt", "z/y/d.txt", "z/y/x/e.txt"));
}

TEST_F(Glob, HintsAtTheUsualMistakes) {
  EXPECT_THAT(refusal({folder_.path("z")}), HasSubstr("try '" + folder_.path("z/**") + "'"));
  EXPECT_THAT(refusal({"~/books/*.txt"}), HasSubstr("~ is not expanded"));
}

}  // namespace
}  // namespace accrue::data
