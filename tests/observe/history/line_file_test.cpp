#include "observe/history/line_file.h"

#include <gmock/gmock.h>

#include <vector>

#include "observe/history/run_folder.h"

namespace accrue::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LineFileTest : public RunFolder {
 protected:
  struct Content {
    std::vector<std::string> lines;
    bool is_last_whole = true;
  };
  static Content content_of(const std::filesystem::path& path) {
    LineFile file(path, 64);
    Content content;
    while (const auto line = file.next()) {
      content.lines.emplace_back(line->text);
      content.is_last_whole = line->is_whole;
    }
    EXPECT_FALSE(file.has_failed());
    return content;
  }
};

TEST_F(LineFileTest, TellsEachLineAndWhetherTheLastIsWhole) {
  const Content whole = content_of(write("whole", "a\n\nbc\n"));
  EXPECT_THAT(whole.lines, ElementsAre("a", "", "bc"));
  EXPECT_TRUE(whole.is_last_whole);
  const Content torn = content_of(write("torn", "a\nbc"));
  EXPECT_THAT(torn.lines, ElementsAre("a", "bc"));
  EXPECT_FALSE(torn.is_last_whole);
  EXPECT_THAT(content_of(write("empty", "")).lines, IsEmpty());
}

TEST_F(LineFileTest, ReadsLinesThatCrossAndExceedItsBlocks) {
  std::vector<std::string> lines;
  std::string text;
  for (const std::size_t length : {3U, 700'000U, 700'000U, 3'000'000U, 0U, 5U}) {
    lines.emplace_back(length, static_cast<char>('a' + lines.size()));
    text += lines.back() + "\n";
  }
  EXPECT_TRUE(content_of(write("long", text)).lines == lines);
}

TEST_F(LineFileTest, SaysWhereThereIsNothingToRead) {
  LineFile missing(folder_ / "missing", 64);
  EXPECT_FALSE(missing.next());
  EXPECT_TRUE(missing.has_failed());
  LineFile folder(folder_, 64);
  EXPECT_FALSE(folder.next());
  EXPECT_TRUE(folder.has_failed());
}

}  // namespace
}  // namespace accrue::observe
